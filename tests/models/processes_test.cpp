// Models over several processes: they train as one process does, and fail as one.

#include "schedule/schedules.h"
#include "tests/models/process_group.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using pipescope::testing_support::ProcessGroup;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

const std::string kTrainer = PIPESCOPE_PROCESS_TRAINER;
const std::string kDeviceTrainer = PIPESCOPE_DEVICE_TRAINER;

/// While it lives, tensors go from device to device of the processes that start.
class Directly {
public:
    Directly() { ::setenv("PIPESCOPE_TEST_DEVICE_MESSAGES", PIPESCOPE_FAKE_MESSAGES, 1); }
    ~Directly() { ::unsetenv("PIPESCOPE_TEST_DEVICE_MESSAGES"); }
    Directly(const Directly&) = delete;
    Directly& operator=(const Directly&) = delete;
};

std::set<std::string> lines_of(const ProcessGroup& group) {
    std::set<std::string> lines;
    for (int k = 0; k < group.size(); ++k) {
        std::stringstream stream(group.output(k));
        for (std::string line; std::getline(stream, line);) {
            lines.insert(line);
        }
    }
    return lines;
}

std::set<std::string> trained(int size, std::vector<std::string> configurations,
                              const std::string& trainer = kTrainer) {
    configurations.insert(configurations.begin(), "3");  // steps
    ProcessGroup group(size, trainer, configurations);
    EXPECT_TRUE(group.wait());
    for (int k = 0; k < size; ++k) {
        EXPECT_EQ(group.exit_code(k), 0) << group.errors(k);
    }
    return lines_of(group);
}

/// Errors of processes started with these ranks and sizes, and the others' arguments.
std::vector<std::string> errors_of_starts(const std::vector<std::pair<std::string, std::string>>& starts,
                                          const std::string& rendezvous,
                                          const std::vector<std::string>& configurations = {
                                              "mlp|4,4||gpipe|never|2|4"}) {
    ProcessGroup group(0, kTrainer, {});
    ::setenv("PIPESCOPE_TEST_PATIENCE_MS", "4000", 1);
    for (std::size_t k = 0; k < starts.size(); ++k) {
        group.start(kTrainer, {starts[k].first, starts[k].second, rendezvous, "1",
                               configurations[std::min(k, configurations.size() - 1)]});
    }
    ::unsetenv("PIPESCOPE_TEST_PATIENCE_MS");
    EXPECT_TRUE(group.wait(std::chrono::seconds(60)));
    std::vector<std::string> errors;
    for (int k = 0; k < group.size(); ++k) {
        EXPECT_EQ(group.exit_code(k), 1) << group.output(k);
        errors.push_back(group.errors(k));
        EXPECT_EQ(std::count(errors.back().begin(), errors.back().end(), '\n'), 1) << errors.back();
    }
    return errors;
}

/// MODEL|BALANCE|PLACEMENT, with each schedule that fits and each checkpoint mode. Each model runs half of the
/// combinations, and the next model the other half.
std::vector<std::string> in_all_modes(const std::vector<std::string>& models) {
    std::vector<std::string> configurations;
    std::size_t combination = 0;
    for (const std::string& model : models) {
        const bool has_placement = model.back() != '|';
        for (const char* schedule : {"gpipe", has_placement ? "interleaved" : "1f1b"}) {
            for (const char* checkpoint : {"always", "except_last", "never"}) {
                if (combination++ % 2 == 0) {
                    configurations.push_back(model + "|" + schedule + "|" + checkpoint + "|4|8");
                }
            }
        }
        ++combination;
    }
    return configurations;
}

TEST(Processes, TrainAsOneProcessDoesBitForBit) {
    std::vector<std::string> configurations = in_all_modes({
        "mlp:layers=8,width=32|2,2,2,2|",
        "mlp:layers=8,width=32|1,1,1,1,1,1,1,1|0,1,2,3,0,1,2,3",
        "transformer:layers=4,width=32,sequence=16,vocabulary=50|2,1,2,1|",
        "unet:B=1,C=4,size=64|20,12,12,21|",
        "amoebanetd:L=3,D=8,size=64|3,2,2,2|",
    });
    configurations.push_back("mlp:layers=8,width=32|2,2,2,2||gpipe|except_last|3|10");  // unequal micro-batches
    configurations.push_back("mlp:layers=8,width=32|2,2,2,2||zero-bubble-h1|except_last|3|10");
    configurations.push_back("unet:B=1,C=4,size=64|20,12,12,21||zero-bubble-h1|never|4|8");
    configurations.push_back("resnet101:width=4,size=64,classes=10|100,90,90,90||1f1b|except_last|2|4");
    for (const Schedule& schedule : runnable_schedules()) {
        const char* balance = runs_one_partition_a_lane(schedule) ? "2,2,2,2" : "1,1,1,1,1,1,1,1@cpu,cpu,cpu,cpu";
        configurations.push_back(std::string("mlp:layers=8,width=32|") + balance + "||" + to_string(schedule) +
                                 "|except_last|8|16");
    }
    configurations.push_back("mlp:layers=4,width=600|1,1,1,1||1f1b|never|2|200");  // larger than the first frame
    const std::set<std::string> alone = trained(1, configurations);
    EXPECT_GT(alone.size(), 4 * configurations.size());
    EXPECT_TRUE(trained(2, configurations) == alone);
    EXPECT_TRUE(trained(4, configurations) == alone);
}

// tests/engine/device/device_processes_test.cpp has more, in threads of one process.
TEST(Processes, TrainOnAcceleratorsAsOneProcessDoesBitForBit) {
    const std::vector<std::string> configurations = in_all_modes({
        "mlp:layers=8,width=32|2,2,2,2@fake:0,fake:1,fake:0,fake:1|",
        "mlp:layers=8,width=32|1,1,1,1,1,1,1,1@fake:0,cpu,fake:1,fake:0|0,1,2,3,0,1,2,3",
        "transformer:layers=4,width=32,sequence=16,vocabulary=50|2,1,2,1@cpu,fake:0,fake:0,fake:1|",
        "aliasing:copy|1,1,1@fake:0,fake:1,fake:0|",  // a skip past a process
    });
    const std::set<std::string> alone = trained(1, configurations, kDeviceTrainer);
    EXPECT_GT(alone.size(), 4 * configurations.size());
    EXPECT_THAT(alone, ::testing::Not(::testing::Contains(HasSubstr("race: "))));
    EXPECT_TRUE(trained(2, configurations, kDeviceTrainer) == alone);
    EXPECT_TRUE(trained(3, configurations, kDeviceTrainer) == alone);
}

TEST(Processes, TrainWithMessagesBetweenTheirDevicesAsOneProcessDoesBitForBit) {
    const std::vector<std::string> configurations = in_all_modes({
        "mlp:layers=8,width=32|1,1,1,1,1,1,1,1@fake:0,cpu,fake:1,fake:0|0,1,2,3,0,1,2,3",
        "aliasing:copy|1,1,1@fake:0,fake:1,fake:0|",  // a skip past a process
    });
    const std::set<std::string> alone = trained(1, configurations, kDeviceTrainer);
    const Directly directly;
    EXPECT_TRUE(trained(2, configurations, kDeviceTrainer) == alone);
    EXPECT_TRUE(trained(3, configurations, kDeviceTrainer) == alone);
}

/// What a process said of its end. Torch logs lines of its own, such as about a connection to the store that broke in
/// the middle of a message because that process ended.
std::string own_words(const std::string& errors) {
    std::string own;
    std::stringstream lines(errors);
    for (std::string line; std::getline(lines, line);) {
        own += line.starts_with("pipescope: ") ? line + "\n" : "";
    }
    return own;
}

void expect_the_cause_of_an_accelerators_lane() {
    const std::string model = "sleepy:8:1:5:13|2,2,2,2@fake:0,fake:1,fake:0,cpu||1f1b|except_last|4|8";
    ProcessGroup group(4, kDeviceTrainer, {"100000", model});
    ASSERT_TRUE(group.wait(std::chrono::seconds(60)));
    for (int k = 0; k < 4; ++k) {
        EXPECT_EQ(group.exit_code(k), 1);
        EXPECT_THAT(group.errors(k), HasSubstr("the sleepy layer woke up"));
        if (k != 2) {
            EXPECT_THAT(group.errors(k), HasSubstr("pipescope: rank 2 (host "));
            EXPECT_THAT(group.errors(k), HasSubstr(", lane 2, step "));
            EXPECT_EQ(own_words(group.errors(k)), own_words(group.errors(k == 0 ? 1 : 0))) << group.errors(k);
        }
    }
}

TEST(Processes, EndWithTheSameCauseIfALayerOfAnAcceleratorsLaneThrows) {
    expect_the_cause_of_an_accelerators_lane();
}

TEST(Processes, EndWithTheSameCauseThoughMessagesAreBetweenTheirDevices) {
    const Directly directly;
    expect_the_cause_of_an_accelerators_lane();
}

TEST(Processes, RefuseAChangeInPlaceThatAnotherProcessCannotSee) {
    const std::vector<std::string> clean = {"aliasing:copy|1,1,1||gpipe|never|2|4",
                                            "aliasing:copy|1,2||1f1b|always|2|4",
                                            "aliasing:in_place|2,1||gpipe|never|2|4"};  // within one partition
    EXPECT_TRUE(trained(2, clean) == trained(1, clean));
    for (const std::string balance : {"1,1,1", "1,2"}) {
        ProcessGroup group(2, kTrainer, {"1", "aliasing:in_place|" + balance + "||gpipe|never|2|4"});
        ASSERT_TRUE(group.wait(std::chrono::seconds(60)));
        for (int k = 0; k < 2; ++k) {
            EXPECT_EQ(group.exit_code(k), 1) << balance << ": " << group.output(k);
            EXPECT_THAT(group.errors(k), HasSubstr("in place")) << balance;
        }
    }
}

/// Losses and sums of tensors, by name; every process that prints one prints the same.
std::map<std::string, double> values_of(int size, const std::string& configuration) {
    std::map<std::string, double> values;
    for (const std::string& line : trained(size, {configuration})) {
        const std::size_t bar = line.find('|');
        const double value = std::stod(line.substr(bar + 1));
        const auto [known, is_new] = values.emplace(line.substr(0, bar), value);
        EXPECT_TRUE(is_new) << known->first << " is " << known->second << " and " << value;
    }
    return values;
}

TEST(Processes, ReplicasTrainAsOnePipelineWithAllTheirSamples) {
    // Dropout draws by micro-batch, so one pipeline with all micro-batches draws the same.
    for (const std::string pipeline :
         {"mlp:layers=8,width=32|2,2,2,2||gpipe|except_last|",
          "transformer:layers=4,width=32,sequence=16,vocabulary=50|2,1,2,1||1f1b|except_last|"}) {
        const auto alone = values_of(1, pipeline + "8|16|1");
        EXPECT_GT(alone.size(), 10U);
        for (const auto& [size, replicas, chunks] : {std::tuple{2, 2, "4"}, {4, 2, "4"}, {4, 4, "2"}}) {
            const auto together = values_of(size, pipeline + chunks + "|16|" + std::to_string(replicas));
            ASSERT_EQ(together.size(), alone.size());
            for (const auto& [name, value] : alone) {
                EXPECT_NEAR(together.at(name), value, 1e-10 * std::max(1.0, std::abs(value)))
                    << name << " of " << pipeline << " in " << size << " processes";
            }
        }
    }
}

// One replica of four has no row that counts.
TEST(Processes, ReplicasWeighTheirLossesByWhatCounts) {
    const auto alone = values_of(1, "padded|1,1||gpipe|except_last|8|16|1");
    EXPECT_GT(alone.size(), 5U);
    for (const std::string schedule : {"gpipe", "1f1b"}) {
        for (const auto& [size, replicas, chunks] : {std::tuple{2, 1, "8"}, {2, 2, "4"}, {4, 2, "4"}, {4, 4, "2"}}) {
            const auto together = values_of(
                size, "padded|1,1||" + schedule + "|except_last|" + chunks + "|16|" + std::to_string(replicas));
            ASSERT_EQ(together.size(), alone.size());
            for (const auto& [name, value] : alone) {
                EXPECT_NEAR(together.at(name), value, 1e-12 * std::max(1.0, std::abs(value)))
                    << name << " with " << schedule << " and " << replicas << " replicas in " << size << " processes";
            }
        }
    }
}

/// While it lives, the processes that start clip gradients.
class Clipped {
public:
    explicit Clipped(const char* how, const char* except = nullptr) {
        ::setenv("PIPESCOPE_TEST_CLIP", how, 1);
        if (except != nullptr) {
            ::setenv("PIPESCOPE_TEST_CLIP_EXCEPT", except, 1);
        }
    }
    ~Clipped() {
        ::unsetenv("PIPESCOPE_TEST_CLIP");
        ::unsetenv("PIPESCOPE_TEST_CLIP_EXCEPT");
    }
    Clipped(const Clipped&) = delete;
    Clipped& operator=(const Clipped&) = delete;
};

TEST(Processes, ClipByTheNormOfAllGradientsAsOneProcessDoesBitForBit) {
    const std::vector<std::string> configurations = {
        "mlp:layers=8,width=32|2,2,2,2||1f1b|except_last|4|8",
        "mlp:layers=8,width=32|1,1,1,1,1,1,1,1|0,1,2,3,0,1,2,3|interleaved|never|4|8",
        "transformer:layers=4,width=32,sequence=16,vocabulary=50|2,1,2,1||gpipe|always|4|8",
    };
    std::set<std::string> of_all_kinds;
    for (const char* how : {"0.1 2", "0.01 inf", "0.5 1.5"}) {
        const Clipped clipped(how);
        const std::set<std::string> alone = trained(1, configurations);
        EXPECT_TRUE(trained(2, configurations) == alone);
        EXPECT_TRUE(trained(4, configurations) == alone);
        of_all_kinds.insert(alone.begin(), alone.end());
    }
    const std::vector<std::string> on_devices = {
        "mlp:layers=8,width=32|2,2,2,2@fake:0,fake:1,cpu,fake:0||1f1b|never|4|8"};
    const Clipped clipped("0.1 2");
    EXPECT_TRUE(trained(2, on_devices, kDeviceTrainer) == trained(1, on_devices, kDeviceTrainer));
    const auto norms = std::ranges::count_if(
        of_all_kinds, [](const std::string& line) { return line.find(" norm ") != std::string::npos; });
    EXPECT_EQ(norms, 27);  // 3 configurations of 3 steps, each by 3 norms
}

TEST(Processes, ClipByTheNormOfOneReplica) {
    const Clipped clipped("0.1 2");
    const std::string pipeline = "mlp:layers=8,width=32|2,2,2,2||1f1b|except_last|";
    const auto alone = values_of(1, pipeline + "8|16|1");
    EXPECT_TRUE(alone.contains("step 2 norm"));
    for (const auto& [size, replicas, chunks] : {std::tuple{2, 2, "4"}, {4, 2, "4"}}) {
        for (const auto& [name, value] : values_of(size, pipeline + chunks + "|16|" + std::to_string(replicas))) {
            EXPECT_NEAR(alone.at(name), value, 1e-10 * std::max(1.0, std::abs(value))) << name;
        }
    }
}

TEST(Processes, SayThatOneDoesNotClip) {
    const std::string steps = "3";
    const auto errors = [&](const char* except, const std::string& model, int size) {
        const Clipped clipped("0.1 2", except);
        ProcessGroup group(size, kTrainer, {steps, model});
        EXPECT_TRUE(group.wait(std::chrono::seconds(60)));
        std::vector<std::string> all;
        for (int k = 0; k < size; ++k) {
            EXPECT_EQ(group.exit_code(k), 1) << group.output(k);
            all.push_back(group.errors(k));
        }
        return all;
    };
    const std::string model = "mlp:layers=8,width=32|2,2,2,2||1f1b|never|4|8";
    EXPECT_THAT(errors("0", model, 2), ::testing::Each(HasSubstr("calls clip_grad_norm_(), and rank 0")));
    EXPECT_THAT(errors("2", model, 4), ::testing::Each(HasSubstr("calls clip_grad_norm_(); a model runs on all")));
    EXPECT_THAT(errors("1", model + "|2", 2), ::testing::Each(HasSubstr("another replica a different one")));
}

TEST(Processes, TrainFiftyModelsInOneGroup) {
    std::vector<std::string> configurations;
    for (int k = 0; k < 50; ++k) {
        configurations.push_back("mlp:layers=2,width=" + std::to_string(8 + k) + "|1,1||gpipe|never|2|4");
    }
    EXPECT_TRUE(trained(2, configurations) == trained(1, configurations));
}

TEST(Processes, LeaveNothingOpenAfterFiftyGroups) {
    ProcessGroup group(2, kTrainer, {"groups", "50"});
    ASSERT_TRUE(group.wait());
    for (int rank = 0; rank < 2; ++rank) {
        ASSERT_EQ(group.exit_code(rank), 0) << group.errors(rank);
        std::vector<std::string> open;
        std::stringstream lines(group.output(rank));
        for (std::string line; std::getline(lines, line);) {
            if (line.starts_with("open ")) {
                open.push_back(line);
            }
        }
        ASSERT_EQ(open.size(), 50U);
        // The first groups make what stays for all, such as torch's own threads.
        EXPECT_EQ(open[4], open[49]);
    }
}

const std::string kEndless = "sleepy:8:1|2,2,2,2||1f1b|except_last|4|8";

void wait_for_steps(const ProcessGroup& group, const std::string& step) {
    for (int k = 0; k < 3000 && group.output(3).find("step " + step) == std::string::npos; ++k) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

TEST(Processes, LeaveAStrangerAlone) {
    ProcessGroup group(2, kTrainer, {"100000", "sleepy:2:1|1,1||gpipe|never|2|4"});
    for (int k = 0; k < 3000 && group.output(1).find("step 3 ") == std::string::npos; ++k) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    const std::vector<std::string> errors = errors_of_starts({{"1", "2"}, {"2", "3"}}, group.rendezvous());
    EXPECT_THAT(errors, ::testing::Each(HasSubstr("are complete without this one")));
    EXPECT_FALSE(group.wait(std::chrono::seconds(1))) << group.errors(0) << group.errors(1);
}

TEST(Processes, EndIfOneStopsEarlier) {
    const std::string rendezvous = ProcessGroup::free_rendezvous();
    ProcessGroup group(0, kTrainer, {});
    const std::string model = "sleepy:2:1|1,1||gpipe|never|2|4";
    group.start(kTrainer, {"0", "2", rendezvous, "2", model});
    group.start(kTrainer, {"1", "2", rendezvous, "3", model});
    ASSERT_TRUE(group.wait(std::chrono::seconds(60)));
    EXPECT_EQ(group.exit_code(1), 1);
    EXPECT_THAT(group.errors(1), HasSubstr("calls step(), and rank 0"));
}

TEST(Processes, TrainForLongerThanTheyWaitForEachOther) {
    ::setenv("PIPESCOPE_TEST_PATIENCE_MS", "3000", 1);
    // Step 0 takes 5 s in layer 0, while the other process waits for it.
    ProcessGroup group(2, kTrainer, {"1", "sleepy:2:2500|1,1||gpipe|never|2|4"});
    ::unsetenv("PIPESCOPE_TEST_PATIENCE_MS");
    ASSERT_TRUE(group.wait(std::chrono::seconds(60)));
    for (int k = 0; k < 2; ++k) {
        EXPECT_EQ(group.exit_code(k), 0) << group.errors(k);
    }
}

TEST(Processes, EndWithTheSameCauseIfALayerThrows) {
    for (int layer = 0; layer < 8; layer += 3) {
        const std::string model = "sleepy:8:1:" + std::to_string(layer) + ":13|2,2,2,2||1f1b|except_last|4|8";
        ProcessGroup group(4, kTrainer, {"100000", model});
        ASSERT_TRUE(group.wait(std::chrono::seconds(60)));
        const int thrower = layer / 2;
        for (int k = 0; k < 4; ++k) {
            EXPECT_EQ(group.exit_code(k), 1);
            EXPECT_THAT(group.errors(k), HasSubstr("the sleepy layer woke up"));
            if (k != thrower) {
                EXPECT_THAT(group.errors(k),
                            MatchesRegex("pipescope: rank " + std::to_string(thrower) + " \\(host .*\\), lane " +
                                         std::to_string(thrower) + ", step . (forward|recompute) \\(., " +
                                         std::to_string(thrower) + "\\), layer sleepy " + std::to_string(layer) +
                                         ": the sleepy layer woke up\n"));
            }
        }
    }
}

void expect_the_cause_of_a_kill(const std::string& trainer, const std::string& endless) {
    std::mt19937 random(5);
    for (const int victim : {0, 3}) {  // who invites the others, and another
        ProcessGroup group(4, trainer, {"100000", endless});
        wait_for_steps(group, "3 ");
        std::this_thread::sleep_for(std::chrono::milliseconds(random() % 50));
        group.signal(victim, SIGKILL);
        ASSERT_TRUE(group.wait(std::chrono::seconds(10)));
        std::set<std::string> errors;
        for (int k = 0; k < 4; ++k) {
            EXPECT_EQ(group.exit_code(k), k == victim ? -SIGKILL : 1);
            if (k != victim) {
                errors.insert(group.errors(k));
            }
        }
        EXPECT_EQ(errors.size(), 1U) << ::testing::PrintToString(errors);
        EXPECT_THAT(*errors.begin(), HasSubstr("pipescope: rank " + std::to_string(victim) + " (host "));
        EXPECT_THAT(*errors.begin(), HasSubstr("ended without a word"));
    }
}

TEST(Processes, EndWithTheSameCauseIfOneIsKilled) {
    expect_the_cause_of_a_kill(kTrainer, kEndless);
}

TEST(Processes, EndWithTheSameCauseIfOneIsKilledWithMessagesBetweenTheirDevices) {
    const Directly directly;
    expect_the_cause_of_a_kill(kDeviceTrainer, "sleepy:8:1|2,2,2,2@fake:0,fake:1,fake:0,fake:1||1f1b|except_last|4|8");
}

TEST(Processes, EndIfOneFallsSilent) {
    ::setenv("PIPESCOPE_TEST_SILENCE_MS", "3000", 1);
    ProcessGroup group(4, kTrainer, {"100000", kEndless});
    ::unsetenv("PIPESCOPE_TEST_SILENCE_MS");
    wait_for_steps(group, "3 ");
    group.signal(2, SIGSTOP);
    EXPECT_FALSE(group.wait(std::chrono::seconds(20)));
    for (const int k : {0, 1, 3}) {
        EXPECT_EQ(group.exit_code(k), 1);
        EXPECT_THAT(group.errors(k), HasSubstr("pipescope: rank 2 (host "));
        EXPECT_THAT(group.errors(k), HasSubstr("has not been heard of for 3 s; its last task was step "));
        EXPECT_EQ(group.errors(k), group.errors(0));
    }
    group.signal(2, SIGCONT);
    ASSERT_TRUE(group.wait(std::chrono::seconds(20)));
    EXPECT_EQ(group.exit_code(2), 1);
    EXPECT_THAT(group.errors(2), HasSubstr("pipescope: rank "));
}

/// A group of processes that compared their clocks: no error is larger than its bound. Even ranks have rank 0's clock.
void expect_errors_within_bounds(ProcessGroup& group) {
    ASSERT_TRUE(group.wait(std::chrono::seconds(60)));
    for (int rank = 0; rank < group.size(); ++rank) {
        ASSERT_EQ(group.exit_code(rank), 0) << group.errors(rank);
        std::stringstream lines(group.output(rank));
        int count = 0;
        for (std::int64_t said = 0, error = 0, bound = 0; lines >> said >> error >> bound; ++count) {
            EXPECT_EQ(said, rank);
            EXPECT_LE(std::abs(error), bound) << "rank " << rank;
            EXPECT_EQ(bound == 0, rank % 2 == 0) << "rank " << rank;
            EXPECT_LT(bound, 50'000'000) << "rank " << rank;
        }
        EXPECT_EQ(count, 2);
    }
}

TEST(ProcessClocks, AreOffByNoMoreThanTheirBound) {
    // Ranks 0 and 2 are on one host, ranks 1 and 3 seem to be on others.
    ProcessGroup group(4, kTrainer, {"clock", "host-a", "host-b", "host-a", "host-c"});
    expect_errors_within_bounds(group);
}

TEST(ProcessClocks, MayBeOfAnotherTimeNamespace) {
    const std::string unshare = "/usr/bin/unshare";
    if (std::system((unshare + " --time --fork true 2> /dev/null").c_str()) != 0) {
        GTEST_SKIP() << "a time namespace needs root, and unshare of util-linux";
    }
    for (const char* ahead : {"1000", "-1000"}) {
        const std::string rendezvous = ProcessGroup::free_rendezvous();
        ProcessGroup group(0, kTrainer, {});
        group.start(kTrainer, {"0", "2", rendezvous, "clock", "own", "own"});
        ::setenv("PIPESCOPE_TEST_AHEAD_S", ahead, 1);
        group.start(unshare, {"--time", "--monotonic", ahead, "--fork", "--kill-child", kTrainer, "1", "2", rendezvous,
                              "clock", "own", "own"});
        ::unsetenv("PIPESCOPE_TEST_AHEAD_S");
        expect_errors_within_bounds(group);
    }
}

TEST(Processes, SayWhyTheyCannotMeet) {
    const auto place = [] { return ProcessGroup::free_rendezvous(); };
    using ::testing::Each;
    EXPECT_THAT(errors_of_starts({{"0", "3"}, {"2", "3"}}, place()), Each(HasSubstr("rank 1 of 3 did not come to ")));
    EXPECT_THAT(errors_of_starts({{"1", "2"}}, place()), Each(HasSubstr("nobody answers at ")));
    EXPECT_THAT(errors_of_starts({{"0", "3"}, {"1", "3"}, {"1", "3"}}, place()),
                Each(HasSubstr("two processes are rank 1: on host ")));
    EXPECT_THAT(errors_of_starts({{"3", "3"}}, place()), Each(HasSubstr("the rank is 3 of 3 processes")));
    EXPECT_THAT(errors_of_starts({{"0", "2"}, {"1", "3"}}, place()), Each(HasSubstr("start all with the same number")));
    EXPECT_THAT(errors_of_starts({{"0", "2"}}, "no-such-host.invalid:2000"),
                Each(HasSubstr("names the host 'no-such-host.invalid', which this host does not know")));
    EXPECT_THAT(errors_of_starts({{"0", "2"}}, "127.0.0.1"), Each(HasSubstr("write it as in node1:29500")));
    EXPECT_THAT(errors_of_starts({{"0", "2"}, {"0", "2"}}, place()),
                Each(HasSubstr("two processes are rank 0: on host ")));
}

TEST(Processes, SayThatTheyMayOpenTooFewFiles) {
    // The process that hosts the store cannot accept the others then, and torch's store would end it.
    const std::string rendezvous = ProcessGroup::free_rendezvous();
    for (const char* limit : {"12", "20", "30"}) {
        ProcessGroup group(0, kTrainer, {});
        group.start("/bin/sh", {"-c", std::string("ulimit -n ") + limit + " && exec " + kTrainer + " 0 2 " +
                                          rendezvous + " 1 'mlp|4,4||gpipe|never|2|4'"});
        ASSERT_TRUE(group.wait(std::chrono::seconds(60)));
        EXPECT_EQ(group.exit_code(0), 1);
        EXPECT_THAT(group.errors(0), MatchesRegex("pipescope: this process may have .* files open and has .*; "
                                                  "connections in a group of 2 processes take up to 26 more here; .*"));
    }
}

TEST(Processes, NeedTheInputWherePartition0Is) {
    const std::string model = "mlp:layers=8,width=32|4,4||1f1b|never|2|4";
    for (const char* rank : {"0", "1"}) {
        ::setenv("PIPESCOPE_TEST_INPUT_RANK", rank, 1);
        ProcessGroup group(2, kTrainer, {"2", model});
        ::unsetenv("PIPESCOPE_TEST_INPUT_RANK");
        ASSERT_TRUE(group.wait(std::chrono::seconds(60)));
        for (int k = 0; k < 2; ++k) {
            EXPECT_EQ(group.exit_code(k), rank == std::string("0") ? 0 : 1) << group.errors(k);
        }
        if (rank == std::string("1")) {
            EXPECT_THAT(group.errors(0), HasSubstr("holds no tensor in the process of partition 0"));
            EXPECT_THAT(group.errors(1),
                        MatchesRegex("pipescope: rank 0 \\(host .*holds no tensor in the process .*\n"));
        }
    }
}

TEST(Processes, SayThatTheirPortIsAnotherPrograms) {
    // A listener that accepts nobody, such as a stopped program.
    const std::string rendezvous = ProcessGroup::free_rendezvous();
    const int other = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(rendezvous.substr(rendezvous.find(':') + 1))));
    ASSERT_EQ(::bind(other, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(::listen(other, SOMAXCONN), 0);
    const auto started = std::chrono::steady_clock::now();
    EXPECT_THAT(errors_of_starts({{"0", "2"}}, rendezvous),
                ::testing::Each(HasSubstr("rank 0 cannot listen on port ")));
    EXPECT_THAT(errors_of_starts({{"1", "2"}}, rendezvous),
                ::testing::Each(HasSubstr("does not answer (it accepts connections and answers none)")));
    EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(60));
    ::close(other);
}

TEST(Processes, DoNotTakeThemselvesForRankZero) {
    // With four ports to choose from, a client soon gets the one that it looks at: the kernel starts with even ones.
    const std::string few_ports = "ip link set lo up && echo 40000 40003 > /proc/sys/net/ipv4/ip_local_port_range && ";
    if (std::system(("/usr/bin/unshare --net sh -c '" + few_ports + "true' 2> /dev/null").c_str()) != 0) {
        GTEST_SKIP() << "a network namespace needs root, unshare of util-linux and ip of iproute2";
    }
    ::setenv("PIPESCOPE_TEST_PATIENCE_MS", "3000", 1);
    ProcessGroup group(0, kTrainer, {});
    group.start(
        "/usr/bin/unshare",
        {"--net", "sh", "-c", few_ports + "exec " + kTrainer + " 1 2 127.0.0.1:40002 1 'mlp|4,4||gpipe|never|2|4'"});
    ::unsetenv("PIPESCOPE_TEST_PATIENCE_MS");
    ASSERT_TRUE(group.wait(std::chrono::seconds(60)));
    EXPECT_EQ(group.exit_code(0), 1);
    EXPECT_THAT(group.errors(0), HasSubstr("nobody answers at 127.0.0.1:40002 within 3 s"));
}

TEST(Processes, SayHowTheyDiffer) {
    const auto differ = [](const std::string& one, const std::string& other) {
        return errors_of_starts({{"0", "2"}, {"1", "2"}}, ProcessGroup::free_rendezvous(), {one, other});
    };
    using ::testing::Each;
    EXPECT_THAT(differ("mlp|4,4||gpipe|never|2|4", "mlp|5,3||gpipe|never|2|4"),
                Each(HasSubstr("the processes differ in the balance: rank 0 (host ")));
    EXPECT_THAT(differ("mlp|4,4||gpipe|never|2|4", "mlp:layers=4|2,2||gpipe|never|2|4"),
                Each(HasSubstr("the processes differ in the number of layers")));
    EXPECT_THAT(differ("mlp|4,4||gpipe|never|2|4", "mlp|4,4||gpipe|never|4|4"),
                Each(HasSubstr("the processes differ in chunks")));
    for (int k = 0; k < 3; ++k) {  // whoever finds it first, the other has the same cause
        EXPECT_THAT(differ("mlp|8||gpipe|never|2|4", "mlp|8||gpipe|never|2|4"),
                    Each(HasSubstr("the model runs on 1 lane in 2 processes")));
    }
    EXPECT_THAT(differ("mlp|4,4||gpipe|never|2|4", "mlp|4,5||gpipe|never|2|4"),
                Each(HasSubstr("balance 4,5 sums to 9")));  // rank 1 finds it before the two compare
}
}  // namespace
}  // namespace pipescope
