#pragma once

#include "profiler/profile/profile.h"
#include "simulator/model_error.h"
#include "simulator/option_texts.h"
#include "simulator/simulation.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// The part of the pipeline that a move changes.
enum class MoveKind { checkpoint, micro_batches, balance, schedule, lanes, links, devices, cores };
/// Names for files: checkpoint, micro_batches, balance, schedule, lanes, links, devices, cores.
std::string to_string(MoveKind kind);

/// The effect of a move, best first.
enum class MoveEffect {
    fits,        ///< the base exceeds the memory limit, and the move keeps it
    faster,      ///< a shorter step within the limit
    over_limit,  ///< a shorter step, but a lane exceeds its limit
    none,        ///< neither
};
/// Names for files: fits, faster, over_limit, none.
std::string to_string(MoveEffect effect);
/// True for fits and faster.
bool helps(MoveEffect effect);

/// One change of a pipeline, and the pipeline that it makes.
struct Move {
    MoveKind kind = MoveKind::checkpoint;
    std::string title;  ///< "Checkpoint: never instead of except_last"
    std::string note;   ///< what it takes, or a doubt; may be empty
    /// Nobody can make this change today: copies for free, or a schedule that is only simulated.
    bool hypothetical = false;
    std::vector<OptionText> changes;
    Simulation simulation;  ///< without timeline and memory over time
    MoveEffect effect = MoveEffect::none;
    std::string why;  ///< a sentence: what makes its step shorter or longer, and by how much it is over the limit
};

/// Single changes of one pipeline, the best first.
struct Advice {
    Simulation base;        ///< without timeline and memory over time
    std::string situation;  ///< a sentence: which lane works longest, or by how much the base is over the limit
    std::vector<Move> moves;
    bool cancelled = false;  ///< moves are those tried by then
    /// Of the base's simulation, if the pipeline was recorded; set by the caller.
    std::optional<ModelError> model_error = {};
};

/// Simulates, without noise, the options and each single change of them that can run:
/// - the other checkpoint modes
/// - half and twice the micro-batches, and the next numbers that divide the mini-batch, which stays. If the base does
///   not fit, also four times, eight times and so on until one fits. Then the fastest of all others that divide the
///   mini-batch and keep the limit, if it is faster than those. If none fits, the same among numbers that do not divide
///   it
/// - the best cuts that are found within milliseconds
/// - each named schedule that the engine runs (on one lane, gpipe and 1f1b), and auto with the present cuts if it finds
///   an order that is quicker, or as quick with less memory, and the pipeline has at most 8192 forwards
/// - one lane more and one fewer, with new cuts, if all lanes are alike
/// - links of twice the speed, and free copies, if lanes copy over links
/// - a device for each lane, or a core for each lane on the host, if lanes share them
/// Cuts stay as they are unless the number of partitions changes. They are only sought where each lane runs one
/// partition, or two as the schedule needs them. Leaves out a move whose pipeline equals the base.
///
/// Order: moves that fit; faster; faster but over the limit; the rest. Within each: real moves before hypothetical
/// ones, then shorter steps first. If the base does not fit, moves over the limit are ordered by need instead. Steps
/// that differ by less than kPlanTie of the base's are equal in effect; with noise also those whose means differ by
/// less than two standard errors of the difference, as if the two samples were independent.
///
/// `cancelled` is asked before each simulation; may be empty. Throws as simulate() does, for the base. Deterministic.
/// Threading: any thread. Cost: about 60 simulations, 20 of them for schedule auto, at most 100 more if the
/// base does not fit, and three searches for cuts.
Advice advise(const CheckedProfile& profile, const PipelineOptions& options,
              const std::function<bool()>& cancelled = {});

/// Fills in effects and sentences, and sorts the moves. Call it after simulations changed.
void rank_moves(Advice& advice);

/// Removes the moves of that kind.
void leave_out(Advice& advice, MoveKind kind);

/// Adds noise to the base and the moves (add_noise()), and ranks them by their expected steps. Without noise in the
/// profile it does nothing. If it is cancelled, the advice stays as it was.
void add_noise(const CheckedProfile& profile, Advice& advice, const std::function<bool()>& cancelled = {});

/// True if the noise may explain that the move's step is shorter: by two standard errors of the difference or less.
bool is_within_noise(const Advice& advice, const Move& move);

/// True if the step's change, longer or shorter, cannot be told apart from the simulation's error on the recorded run.
/// Empty if that error is not known. It says nothing of memory.
std::optional<bool> is_within_model_error(const Advice& advice, const Move& move);

/// Step time of a move over that of the base, minus 1. Expected steps, if the profile has noise.
double relative_change(const Advice& advice, const Move& move);
}  // namespace pipescope
