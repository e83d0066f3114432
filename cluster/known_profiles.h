#pragma once

#include "cluster/layout.h"
#include "profiler/profile/profile.h"
#include "schedule/balance.h"
#include "simulator/pipeline_options.h"
#include "simulator/sized_profile.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

namespace pipescope {
/// A profile for devices of one type, with its costs at the size of a layout's micro-batches.
struct PartProfile {
    PartProfile(Profile of_part, std::int64_t samples);

    Profile profile;
    SizedProfile sized;
    std::vector<double> times;  ///< of a micro-batch's forward and backward, by layer, in ns
};
using PartProfilePointer = std::shared_ptr<const PartProfile>;

struct PartProfiles;

/// The quickest cuts for layers' times alone, computed once for layouts with the same profiles and partitions.
/// Threading: one thread at a time.
class KnownCuts {
public:
    /// As quickest_cuts().
    Balance of(const PartProfiles& profiles, const PipelineOptions& options, std::size_t partitions);

private:
    std::map<std::tuple<std::vector<PartProfilePointer>, std::vector<std::size_t>, std::vector<LaneId>, std::size_t>,
             Balance>
        known_;
};

/// language_model_profile() of one model on one cluster, computed once for layouts that differ in nothing that a
/// layer's costs depend on: lanes and replicas without ZeRO 2 and 3, or schedules. Threading: one thread at a time.
class KnownProfiles {
public:
    /// Preconditions: as language_model_profile(); `model`, `cluster` and what a plan does not vary are those of
    /// earlier calls.
    PartProfilePointer of(const LanguageModel& model, const Cluster& cluster, const NodeGroup& group,
                          const Layout& layout);

    KnownCuts& cuts() { return cuts_; }

private:
    using Key = std::tuple<const NodeGroup*, int, int, int, int, int, bool, bool, std::int64_t, Recompute, int, int>;
    std::map<Key, PartProfilePointer> known_;
    std::size_t layers_ = 0;  // in all of them
    KnownCuts cuts_;
};

// The functions of layout.h with profiles that layouts share.
/// If the layout surely fits and takes longer than `enough_ns`, the step is without its memory.
LayoutStep simulate_layout(const LanguageModel& model, const Cluster& cluster, const PipelineParts& parts,
                           const Layout& layout, const SimulationDetail& detail, KnownProfiles& known,
                           double enough_ns = std::numeric_limits<double>::infinity());
LeastStep least_step(const LanguageModel& model, const Cluster& cluster, const PipelineParts& parts,
                     const Layout& layout, KnownProfiles& known);
}  // namespace pipescope
