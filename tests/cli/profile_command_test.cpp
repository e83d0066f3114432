// `pipescope profile`: estimates for devices that are not present, and refused options.

#include "tests/cli/user.h"

#include <gmock/gmock.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

// A matrix product large enough that launches do not limit any device.
const std::string kWide = "mlp:layers=2,width=4096";

class ProfileCommand : public testing::Test {
protected:
    nlohmann::ordered_json estimate(const std::string& device_type) const {
        const std::string device = device_type.empty() ? "" : " --device-type " + device_type;
        return user.succeeds("profile " + kWide + " --device meta --micro-batch-sizes 8,16 --json" + device).json();
    }
    static double forward_ns(const nlohmann::ordered_json& profile) {
        return profile.at("layers").at(1).at("forward_ns").at(1).get<double>();
    }
    static double forward_ns_of(const nlohmann::ordered_json& profile) {
        return profile.at("layers").at(1).at("forward_ns").at(0).get<double>();
    }
    std::string refused(int code, const std::string& line) const {
        const CommandResult result = user.types("profile " + line);
        EXPECT_EQ(result.code, code) << line << "\n" << result.err;
        EXPECT_EQ(result.out, "") << line;
        EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
        return result.err;
    }

    User user;
};

TEST_F(ProfileCommand, EstimatesForEveryDeviceOfTheCatalogueWithoutHavingIt) {
    std::map<std::string, double> times;
    for (const std::string device : {"P40", "P100", "V100", "A100", "H100", "H200"}) {
        const auto profile = estimate(device);
        EXPECT_EQ(profile.at("device"), device);
        EXPECT_EQ(profile.at("estimated"), true);
        const auto& layer = profile.at("layers").at(1);
        EXPECT_EQ(layer.at("parameter_bytes"), (4096 * 4096 + 4096) * 4);
        EXPECT_GE(layer.at("flops").at(1).get<double>(), 2.0 * 16 * 4096 * 4096);
        EXPECT_EQ(layer.at("output_bytes").at(1), 16 * 4096 * 4);
        EXPECT_GT(layer.at("backward_ns").at(1).get<double>(), 0);
        times[device] = forward_ns(profile);
    }
    // Ordered by the bandwidth for reading the parameters.
    EXPECT_GT(times["P40"], times["P100"]);
    EXPECT_GT(times["P100"], times["V100"]);
    EXPECT_GT(times["V100"], times["A100"]);
    EXPECT_GT(times["A100"], times["H100"]);
    EXPECT_GT(times["H100"], times["H200"]);
    EXPECT_EQ(forward_ns(estimate("v100")), times["V100"]) << "letters of either case, and the same each time";
}

TEST_F(ProfileCommand, EstimatesForThisMachineByACalibration) {
    const auto profile = estimate("");
    EXPECT_EQ(profile.at("estimated"), true);
    EXPECT_GT(forward_ns(profile), 1e3) << "16 x 4096 x 4096 products take no core a microsecond";
    EXPECT_EQ(user.succeeds("profile mlp:layers=1,width=64 --device meta --micro-batch-sizes 1 -o p.json").err, "");
    EXPECT_EQ(user.succeeds("simulate p.json --balance 1 -m 1 --batch 1 --json").json().at("estimated"), true);
}

TEST_F(ProfileCommand, TakesAnotherCatalogue) {
    user.writes("c.json", R"({"format": "pipescope.devices", "version": 1, "devices": [{"name": "Mine",
        "flops_per_second": {"float32": 1e12}, "memory_bytes": 1e9, "memory_bytes_per_second": 1e9}]})");
    const std::string meta = kWide + " --device meta --catalogue c.json";
    EXPECT_EQ(user.succeeds("profile " + meta + " --device-type mine --json").json().at("device"), "Mine");
    EXPECT_THAT(refused(2, meta + " --device-type V100"), AllOf(HasSubstr("V100"), HasSubstr("Mine")));
    user.writes("c.json", "{}");
    EXPECT_THAT(refused(1, meta + " --device-type Mine"), HasSubstr("c.json"));
}

TEST_F(ProfileCommand, CastsTheModelToTheDtypeAskedForAndEstimatesAtItsRate) {
    const std::string meta = "profile " + kWide + " --device meta --device-type A100 --micro-batch-sizes 4096 --json";
    const auto whole = user.succeeds(meta).json();
    const auto half = user.succeeds(meta + " --dtype bfloat16").json();
    EXPECT_EQ(whole.at("dtype"), "float32");
    EXPECT_EQ(half.at("dtype"), "bfloat16");
    const auto times_as_much = [&](const char* field, double ratio) {
        const auto value = [&](const nlohmann::ordered_json& profile) {
            const auto& found = profile.at("layers").at(1).at(field);
            return found.is_array() ? found.at(0).get<double>() : found.get<double>();
        };
        EXPECT_NEAR(value(whole) / value(half), ratio, 0.01 * ratio) << field;
    };
    for (const char* field : {"parameter_bytes", "gradient_bytes", "output_bytes"}) {
        times_as_much(field, 2);
    }
    EXPECT_EQ(whole.at("input_bytes").at(0), 2 * half.at("input_bytes").at(0).get<std::int64_t>());
    EXPECT_GT(forward_ns_of(whole) / forward_ns_of(half), 8) << "312 and 19.5 TFLOP/s, and half the bytes";
    const auto tensor_units = user.succeeds(meta + " --dtype tf32").json();
    EXPECT_EQ(tensor_units.at("dtype"), "tf32");
    EXPECT_EQ(tensor_units.at("layers").at(1).at("output_bytes"), whole.at("layers").at(1).at("output_bytes"));
    EXPECT_LT(forward_ns_of(tensor_units), forward_ns_of(whole) / 4);

    const auto measured =
        user.succeeds("profile mlp:layers=2,width=16 --dtype bfloat16 --micro-batch-sizes 1 --time-limit 1ms --json")
            .json();
    EXPECT_EQ(measured.at("dtype"), "bfloat16");
    EXPECT_EQ(measured.at("layers").at(0).at("parameter_bytes"), (16 * 16 + 16) * 2);
    EXPECT_FALSE(measured.contains("token_input"));
    EXPECT_EQ(user.succeeds("profile transformer:layers=1,width=8,heads=1,sequence=4,vocabulary=9 --device meta "
                            "--device-type A100 --dtype bfloat16 --json")
                  .json()
                  .at("token_input"),
              true);

    EXPECT_THAT(refused(2, kWide + " --device meta --device-type V100 --dtype bfloat16"),
                HasSubstr("dtype is bfloat16 on V100, which has rates for float16, float32, float64 only"));
    EXPECT_THAT(refused(2, kWide + " --dtype nonsense"), HasSubstr("'nonsense'"));
    EXPECT_THAT(refused(2, kWide + " --dtype tf32"), HasSubstr("add --device meta"));
}

TEST_F(ProfileCommand, RecordsTapesUnlessAskedNotTo) {
    const std::string line = "profile mlp:layers=2,width=16 --micro-batch-sizes 1,2 --time-limit 1ms";
    const auto plain = user.succeeds(line + " --no-tapes --json").json();
    user.succeeds(line + " -o p.json");
    const auto taped = nlohmann::ordered_json::parse(user.reads("p.json"));
    ASSERT_EQ(taped.at("layers").size(), 2U);
    for (std::size_t layer = 0; layer < 2; ++layer) {
        EXPECT_FALSE(plain.at("layers").at(layer).contains("tape"));
        const auto& tape = taped.at("layers").at(layer).at("tape");
        ASSERT_EQ(tape.size(), 2U) << "one for each size";
        EXPECT_FALSE(tape.at(0).empty());
        EXPECT_FALSE(tape.at(1).empty());
    }
    EXPECT_GT(user.succeeds("simulate p.json --balance 1,1 -m 2 --batch 4 --json").json().at("step_ns"), 0);
}

TEST_F(ProfileCommand, TellsHowMuchItsTimesVary) {
    const auto profile =
        user.succeeds("profile mlp:layers=2,width=16 --micro-batch-sizes 1 --time-limit 1s --json").json();
    const double most = std::sqrt(1000.0);  // of as many rounds as there may be
    for (const auto& layer : profile.at("layers")) {
        for (const std::string field : {"forward_cv", "backward_cv"}) {
            EXPECT_GE(layer.at(field).get<double>(), 0) << field;
            EXPECT_LE(layer.at(field).get<double>(), most) << field;
        }
    }
    const auto together = profile.value("step_cv", 0.0);  // left out where nothing is common to the layers
    EXPECT_GE(together, 0);
    EXPECT_LE(together, most);
}

TEST_F(ProfileCommand, SaysHowMuchOfTheCoresOthersTook) {
    const CommandResult busy = user.types_to_shell(
        "others=''\nfor i in $(seq $(($(nproc) * 2))); do timeout 100 sh -c 'while :; do :; done' & "
        "others=\"$others $!\"; done\n"
        "timeout 120 '" PIPESCOPE_BIN_FOLDER
        "/pipescope' profile mlp:layers=6,width=512 --micro-batch-sizes 32 --time-limit 3s -o busy.json "
        ">.stdout 2>.stderr\ncode=$?\nkill $others\nexit $code");
    ASSERT_EQ(busy.code, 0) << busy.err;
    const auto load = nlohmann::json::parse(user.reads("busy.json")).at("load");
    EXPECT_GT(load.at("others").get<double>(), 0.05) << "two of them ran on each core";
    EXPECT_LE(load.at("others").get<double>(), 1.0);
    EXPECT_GE(load.at("stolen").get<double>(), 0.0);
    EXPECT_THAT(busy.out + busy.err, HasSubstr("other processes took"));
}

// Two layers that only wait: five rounds take two seconds on any machine, and the bar appears after the first.
TEST_F(ProfileCommand, ShowsItsProgressOnATerminal) {
    user.writes("e.json", R"({"format": "pipescope.profile", "version": 1, "samples": [1], "layers": [
        {"name": "a", "forward_ns": [50000000], "backward_ns": [100000000], "output_bytes": [8]},
        {"name": "b", "forward_ns": [50000000], "backward_ns": [100000000], "output_bytes": [8]}]})");
    int terminal = -1;
    const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
    if (child < 0) {
        GTEST_SKIP() << "this machine has no pseudo-terminals: /dev/pts is not there";
    }
    if (child == 0) {
        alarm(100);
        if (chdir(user.folder().path().c_str()) == 0) {
            execl(PIPESCOPE_BIN_FOLDER "/pipescope", "pipescope", "profile", "emulated:e.json", "--micro-batch-sizes",
                  "1", "-o", "p.json", nullptr);
        }
        _exit(127);
    }
    std::string shown;
    std::array<char, 4096> bytes{};
    for (ssize_t count = 0; (count = read(terminal, bytes.data(), bytes.size())) > 0;) {
        shown.append(bytes.data(), static_cast<std::size_t>(count));
    }
    close(terminal);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << shown;
    EXPECT_THAT(shown, testing::ContainsRegex("profiling emulated:e.json \\[[#.]+\\] +[0-9]+ %"));
    EXPECT_TRUE(user.has("p.json"));
}

TEST_F(ProfileCommand, EndsAtItsTimeLimitWithEveryLayerMeasured) {
    const auto profile = user.succeeds("profile mlp:layers=3,width=32 --time-limit 1ms --json").json();
    EXPECT_EQ(profile.at("samples"), (nlohmann::ordered_json{1, 2, 4}));
    for (const auto& layer : profile.at("layers")) {
        for (const std::string field : {"forward_ns", "recompute_ns", "backward_ns"}) {
            EXPECT_GT(layer.at(field).at(2).get<double>(), 0) << field;
        }
    }
}

TEST_F(ProfileCommand, GivesAMemoryLimitInAUnitThatFits) {
    const CommandResult profile =
        user.succeeds("profile mlp:layers=1,width=16 --micro-batch-sizes 1 --time-limit 1ms --memory-limit 1B");
    EXPECT_THAT(profile.out + profile.err, HasSubstr(" and 1 B are free"));
}

TEST_F(ProfileCommand, KeepsTheGivenOptionsForPrintedCommandsToRepeat) {
    user.succeeds("profile mlp:layers=2,width=16 --micro-batch-sizes 1 --co-running 1 --no-tapes --seed 7 -o p.json");
    EXPECT_THAT(user.succeeds("simulate p.json --balance 2 -m 1 --batch 2").out,
                HasSubstr("--micro-batch-sizes 1,2 --co-running 1 --seed 7 --no-tapes -o p.json --force"));
}

// Layers that wait take what their profile says, so a profile of half the times is doubled.
TEST_F(ProfileCommand, CalibratesAProfileWithARecordedRun) {
    user.writes("slow.json", emulated_profile(4));
    user.writes("p.json", emulated_profile(2));
    user.succeeds("run emulated:slow.json --balance 5,3 -m 2 --batch 2 --steps 3 --warmup 1 --trace run.sqlite");
    const CommandResult made = user.succeeds("profile --calibrate run.sqlite --profile p.json -o calibrated.json");
    EXPECT_THAT(made.out,
                AllOf(HasSubstr("calibrated with 2 steps of 1 run"), HasSubstr("layer.7"), HasSubstr("all layers: +")));
    const auto simulated =
        user.succeeds("simulate calibrated.json --balance 4,4 -m 4 --batch 4 --checkpoint never --json").json();
    EXPECT_GT(simulated.at("step_ns").get<double>(), 0.99 * 4 * 5 * (4 + 8) * 1e6) << "waits are never shorter";
    user.succeeds("profile --calibrate run.sqlite run.sqlite -o own.json");
    EXPECT_TRUE(user.has("own.json"));

    user.writes("other.json", user.reads("p.json").replace(user.reads("p.json").find("layer.3"), 7, "other.3"));
    EXPECT_THAT(refused(2, "--calibrate run.sqlite --profile other.json"),
                AllOf(HasSubstr("has a layer 3 named layer.3, and the earlier profile other.3"),
                      HasSubstr("give a run and a profile of one model")));
    EXPECT_THAT(refused(2, "--profile p.json"), HasSubstr("add --calibrate RUN"));
    EXPECT_THAT(refused(2, "--calibrate run.sqlite --steps 1"), HasSubstr("--steps is given with --calibrate"));
    EXPECT_THAT(refused(2, "mlp:layers=1 --calibrate run.sqlite"), HasSubstr("one argument too many"));
    EXPECT_THAT(refused(1, "--calibrate p.json"), HasSubstr("p.json"));
}

TEST_F(ProfileCommand, RefusesWhatMakesNoSenseAndWritesNothing) {
    const std::string model = "mlp:layers=1,width=16 -o p.json ";
    EXPECT_THAT(refused(2, model + "--micro-batch-sizes 0,1"), HasSubstr("at least 1"));
    EXPECT_THAT(refused(2, model + "--micro-batch-sizes one"), HasSubstr("one"));
    EXPECT_THAT(refused(2, model + "--co-running 0"), HasSubstr("use 1 or more"));
    EXPECT_THAT(refused(2, model + "--co-running 5000"), HasSubstr("take turns"));
    EXPECT_THAT(refused(2, model + "--time-limit -1s"), HasSubstr("--time-limit"));
    EXPECT_THAT(refused(2, model + "--time-limit 5"),
                AllOf(HasSubstr("write it as 5s"), testing::Not(HasSubstr("5ns"))));
    EXPECT_THAT(refused(2, model + "--time-limit 0"), HasSubstr("write it as 30s"));
    for (const std::string limit : {"5", "3600", "0", "0s"}) {
        EXPECT_THAT(refused(2, model + "--time-limit " + limit), HasSubstr("--time-limit is '" + limit + "'"));
    }
    EXPECT_THAT(refused(2, model + "--seed -1"), HasSubstr("'-1' is not a seed"));
    EXPECT_THAT(refused(2, model + "--seed 99999999999999999999999"), HasSubstr("from 0 to 2^64 - 1"));
    EXPECT_THAT(refused(2, model + "--device-catalogue none.json"), HasSubstr("add --device meta"));
    EXPECT_THAT(refused(2, model + "--catalogue none.json"), HasSubstr("add --device meta"));
    EXPECT_THAT(refused(2, model + "--memory-limit 1Gb"), HasSubstr("GiB"));
    EXPECT_THAT(refused(2, model + "--device tpu"), HasSubstr("tpu"));
    EXPECT_THAT(refused(2, model + "--device-type V100"), HasSubstr("add --device meta"));
    EXPECT_THAT(refused(2, model + "--device meta --one-layer-at-a-time"), HasSubstr("leave out one"));
    EXPECT_THAT(refused(2, model + "--device meta --device-type Z80"), AllOf(HasSubstr("Z80"), HasSubstr("H200")));
    EXPECT_THAT(refused(2, "nosuchmodel"), HasSubstr("nosuchmodel"));
    EXPECT_THAT(refused(1, "mlp:layers=1 -o none/p.json"), HasSubstr("none"));
    EXPECT_FALSE(user.has("p.json"));
}
}  // namespace
}  // namespace pipescope
