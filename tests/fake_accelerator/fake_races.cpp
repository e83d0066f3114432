#include "tests/fake_accelerator/fake_races.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace pipescope::fake_accelerator {
namespace {
constexpr std::size_t kMostReports = 20;

struct Shared {
    std::mutex mutex;
    Clock seen;
    std::vector<std::string> races;
};
Shared& shared() {
    static auto* const one = new Shared;  // threads of streams outlive main()
    return *one;
}

void report(std::string race) {
    const std::lock_guard lock(shared().mutex);
    if (shared().races.size() < kMostReports) {
        shared().races.push_back(std::move(race));
    }
}

/// Forgets all other uses: whoever knows of this one knows of the earlier ones.
void set(Clock& uses, std::size_t stream, const Clock& knows) {
    uses = Clock();
    uses.counts.at(stream) = knows.counts.at(stream);
}
}  // namespace

void Clock::merge(const Clock& other) {
    std::transform(counts.begin(), counts.end(), other.counts.begin(), counts.begin(),
                   [](std::uint64_t one, std::uint64_t two) { return std::max(one, two); });
}

bool Clock::covers(const Clock& other) const {
    return std::equal(counts.begin(), counts.end(), other.counts.begin(), std::greater_equal<>());
}

Clock& known_to_thread() {
    thread_local Clock known;
    return known;
}

Clock seen_by_any() {
    const std::lock_guard lock(shared().mutex);
    return shared().seen;
}

void see(const Clock& moment) {
    const std::lock_guard lock(shared().mutex);
    shared().seen.merge(moment);
}

void MemoryUses::read(const std::string& name, std::size_t stream, const Clock& knows) {
    if (!knows.covers(writes_)) {
        report(name + " reads what " + last_writer_ + " may still write");
    }
    reads_.counts.at(stream) = knows.counts.at(stream);
    last_reader_ = name;
}

void MemoryUses::write(const std::string& name, std::size_t stream, const Clock& knows) {
    if (!knows.covers(writes_)) {
        report(name + " writes what " + last_writer_ + " may still write");
    }
    if (!knows.covers(reads_)) {
        report(name + " writes what " + last_reader_ + " may still read");
    }
    set(writes_, stream, knows);
    reads_ = Clock();
    last_writer_ = name;
}

std::vector<std::string> take_races() {
    const std::lock_guard lock(shared().mutex);
    return std::exchange(shared().races, {});
}
}  // namespace pipescope::fake_accelerator
