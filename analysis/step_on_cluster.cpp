#include "analysis/step_on_cluster.h"

#include "schedule/checkpoint.h"
#include "schedule/schedules.h"

#include <fmt/format.h>

namespace pipescope {
namespace {
std::string ms_text(Nanoseconds time) {
    return fmt::format("{:.1f} ms", static_cast<double>(time.count()) / 1e6);
}
}  // namespace

std::string part_text(const StepOnCluster& step) {
    return fmt::format("the pipeline of {}, {} of the step of {}",
                       step.lane_devices > 1 ? "one tensor-parallel rank of one replica" : "one replica",
                       ms_text(step.pipeline), ms_text(step.whole));
}

bool layers_recompute(const StepOnCluster& step, const PipelineOptions& recorded) {
    return step.checkpoint != to_string(recorded.checkpoint);
}

ModelFlops of_whole_step(ModelFlops flops, const StepOnCluster& step, std::int64_t batch) {
    if (step.model_flops > 0) {
        flops.step = step.model_flops / static_cast<double>(step.batch) * static_cast<double>(batch);
    }
    if (flops.peak_per_second) {
        *flops.peak_per_second *= static_cast<double>(step.lane_devices);
    }
    return flops;
}

void add_rest_of_step(Simulation& simulation, const StepOnCluster& step) {
    simulation.after_pipeline = step.after_pipeline();
    if (simulation.flops) {
        simulation.flops = of_whole_step(*simulation.flops, step, simulation.options.batch);
    }
}

void add_rest_of_step(Advice& advice, const StepOnCluster& step, const PipelineOptions& recorded) {
    add_rest_of_step(advice.base, step);
    for (Move& move : advice.moves) {
        add_rest_of_step(move.simulation, step);
        const std::string kept = kept_text(step, changes_after_pipeline(recorded, move.simulation.options));
        move.note += (move.note.empty() || kept.empty() ? "" : "; ") + kept;
    }
    rank_moves(advice);
}

void leave_out_unknown(Advice& advice, const StepOnCluster& step, const PipelineOptions& recorded,
                       const Profile& profile) {
    if (layers_recompute(step, recorded)) {
        leave_out(advice, MoveKind::checkpoint);
    }
    if (profile.samples.size() == 1) {
        leave_out(advice, MoveKind::micro_batches);
    }
}

std::vector<std::string> changes_after_pipeline(const PipelineOptions& recorded, const PipelineOptions& changed) {
    const Hardware& before = recorded.hardware;
    const Hardware& after = changed.hardware;
    std::vector<std::string> changes;
    const auto add = [&](bool differs, const char* what) {
        if (differs) {
            changes.emplace_back(what);
        }
    };
    add(recorded.balance != changed.balance || recorded.placement != changed.placement, "other cuts");
    add(recorded.replicas != changed.replicas, "other replicas");
    add(recorded.optimizer != changed.optimizer, "another optimizer");
    add(before.speeds != after.speeds, "other speeds of lanes");
    add(before.link != after.link || before.nearer != after.nearer || before.pairs != after.pairs ||
            before.replica_link != after.replica_link,
        "other links");
    // Updates are then part of each lane's period.
    add(is_synchronous(recorded.schedule) != is_synchronous(changed.schedule), "a schedule that never drains");
    return changes;
}

std::string kept_text(const StepOnCluster& step, const std::vector<std::string>& changes) {
    std::string list;
    for (std::size_t k = 0; k < changes.size(); ++k) {
        list += (k == 0 ? "" : k + 1 < changes.size() ? ", " : " and ") + changes[k];
    }
    return changes.empty() ? ""
                           : fmt::format("what follows the pipeline is kept at {}, which {} would change",
                                         ms_text(step.after_pipeline()), list);
}
}  // namespace pipescope
