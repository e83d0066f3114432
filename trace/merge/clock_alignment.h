#pragma once

#include "schedule/process_facts.h"

#include <cstddef>
#include <span>
#include <vector>

namespace pipescope {
/// Converts a process's times to rank 0's times. The offset is linear between the first and the last reading, and
/// constant outside. Invariant: the order of two times is kept.
class RankClock {
public:
    /// Without a reading, the times already are rank 0's.
    explicit RankClock(const std::vector<ClockReading>& readings = {});

    Nanoseconds to_rank_0(Nanoseconds own) const;
    /// Largest error, shifts included.
    Nanoseconds bound() const;
    /// The readings that it uses, with their shifts.
    std::vector<ClockReading> readings() const;

private:
    friend class ClockAlignment;
    /// Weight of the last reading in the offset at this time; the first reading has the rest.
    double weight_of_last(Nanoseconds own) const;

    ClockReading first_, last_;
    // Shifts of the two readings' offsets, within their bounds.
    double first_shift_ = 0;
    double last_shift_ = 0;
};

/// A message from one process to another.
struct ClockMessage {
    std::size_t sender = 0;  ///< index of its clock
    std::size_t receiver = 0;
    Nanoseconds sent{0};  ///< no later than the true sending time, on the sender's clock
    Nanoseconds came{0};  ///< no earlier than the true arrival, on the receiver's clock
};

struct AlignedClocks {
    std::vector<RankClock> clocks;
    Nanoseconds largest_shift{0};  ///< largest shift of a reading to put messages in order
    std::size_t impossible = 0;    ///< messages that still arrive before they were sent
    Nanoseconds worst{0};          ///< how much too early, at most
    /// By clock: true if impossible messages contradict its bound, so its error is unknown. Never true for clock 0, the
    /// reference.
    std::vector<bool> contradicted;
};

/// Shifts the clocks' offsets within their bounds, as little as needed, so that no message arrives before it was sent.
///
/// Each message is a linear inequality between the four offsets of its two clocks. The method of Agmon and Motzkin
/// solves such a system: it moves the offsets straight to the boundary of each violated inequality, until all hold. If
/// the bounds permit no solution, some messages stay impossible.
///
/// Cost: one pass over the messages if all are in order; otherwise up to a thousand passes over those that the bounds
/// allow to break.
AlignedClocks align_clocks(std::vector<RankClock> clocks, std::span<const ClockMessage> messages);

struct WallClocks {
    AlignedClocks aligned;
    std::vector<bool> checked;  ///< by clock; false: no messages show its error, so its bound is unknown
};

/// Aligns clocks for which only the hosts' wall clocks are known. A clock's time plus its offset is the time of clock
/// 0.
///
/// Bound: a message takes at least no time. Messages in both directions therefore bound the error of an offset by the
/// longer of the two least travel times. If one of them is negative, the wall clocks differ: then the offset makes the
/// two equal, and the bound is half their sum. Otherwise the offset stays, because ranks of one host have exact
/// offsets.
///
/// Paths: ranks that exchange no messages with clock 0 are reached over other ranks, and bounds add up; the path with
/// the smallest bound counts. If the sum of two travel times is negative, no offset is right, and the clocks reached
/// over this pair are contradicted.
/// `agreements`: bound offsets like messages, but none is impossible, as if two events of different clocks happen at
/// about the same time.
WallClocks align_wall_clocks(std::span<const Nanoseconds> offsets, std::span<const ClockMessage> messages,
                             std::span<const ClockMessage> agreements = {});
}  // namespace pipescope
