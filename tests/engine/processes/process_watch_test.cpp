// What a group of processes makes of odd things that it meets. Here the processes are threads of one.

#include "engine/processes/processes.h"
#include "engine/processes/transport.h"
#include "tests/models/process_group.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using ::testing::HasSubstr;
using namespace std::chrono_literals;

std::vector<std::shared_ptr<Processes>> joined(int size, const std::string& rendezvous) {
    std::vector<std::shared_ptr<Processes>> ranks(static_cast<std::size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
        threads.emplace_back([&, rank] {
            ranks[static_cast<std::size_t>(rank)] = Processes::join(
                {.rank = rank, .size = size, .rendezvous = rendezvous, .patience = 30s, .silence = 60s});
        });
    }
    for (std::thread& each : threads) {
        each.join();
    }
    return ranks;
}

/// Each leaves in a thread of its own, since it waits for the others.
void leave(std::vector<std::shared_ptr<Processes>> ranks) {
    std::vector<std::thread> threads;
    for (auto& each : ranks) {
        threads.emplace_back([rank = std::move(each)]() mutable { rank.reset(); });
    }
    for (std::thread& each : threads) {
        each.join();
    }
}

TEST(ProcessWatch, GoesOnThoughABeatInTheStoreIsNoNumber) {
    const std::string rendezvous = testing_support::ProcessGroup::free_rendezvous();
    auto ranks = joined(2, rendezvous);
    const auto port = static_cast<std::uint16_t>(std::stoi(rendezvous.substr(rendezvous.find(':') + 1)));
    KeyStore store({"127.0.0.1", port}, std::nullopt, 30s);
    for (int k = 0; k < 300; ++k) {  // the beat is written and looked at every 100 ms
        store.set("pipescope/0.0/beat/1", std::to_string(k) + " no number");
        std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(ranks[0]->failure(), std::nullopt);
    leave(std::move(ranks));
}

TEST(ProcessWatch, EndsTheGroupIfItsConnectionsAreClosedInUse) {
    auto ranks = joined(2, testing_support::ProcessGroup::free_rendezvous());
    EXPECT_THAT(thrown<ProcessError>([&] { ranks[0]->exchange(1, [] { return false; }); }),
                HasSubstr("the connections were closed while rank 0"));
    EXPECT_THAT(ranks[0]->failure().value_or(""), HasSubstr("the connections were closed while rank 0"));
    leave(std::move(ranks));
}
}  // namespace
}  // namespace pipescope
