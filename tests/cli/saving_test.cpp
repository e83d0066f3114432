// Runs that save their training, and continue it after whatever ended them.

#include "tests/cli/user.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <spawn.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <random>
#include <thread>

namespace pipescope {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kTransformer = "run transformer:layers=2,width=32,sequence=16,vocabulary=50 --batch 8 --json ";
const std::string kMlp = "run mlp:layers=4,width=16 --balance 2,2 -m 2 --batch 4 --optimizer adam --json ";

std::vector<double> losses_of(const CommandResult& run) {
    std::vector<double> losses;
    const auto object = run.json();
    for (const auto& step : object.at("steps")) {
        losses.push_back(step.at("loss").get<double>());
    }
    return losses;
}

std::vector<double> without_first(const std::vector<double>& losses, std::int64_t count) {
    return {losses.begin() + count, losses.end()};
}

TEST(Saving, AResumedRunEqualsAnUndisturbedOne) {
    const User user;
    for (const char* optimizer : {"sgd", "momentum", "adam", "adamw"}) {
        const std::string run = kTransformer + "--balance 2,2 -m 4 --optimizer " + optimizer;
        const std::string saves = std::string(" --save ") + optimizer;
        const std::vector<double> expected = losses_of(user.succeeds(run + " --steps 7"));
        const CommandResult first = user.succeeds(run + saves + " --steps 3 --learning-rate 0.01");
        EXPECT_EQ(keys_of(first.json()).back(), "save_pause_ns");
        EXPECT_EQ(first.json().at("saved"), std::string(optimizer) + "/step-000003");
        EXPECT_FALSE(first.json().contains("resumed_from"));
        const std::vector<double> other_rate = losses_of(user.succeeds(run + " --steps 7 --learning-rate 0.01"));
        const CommandResult second = user.succeeds(run + saves + " --resume --steps 7 --save-every 2");
        EXPECT_EQ(second.json().at("resumed_from"), 3);
        EXPECT_EQ(second.json().at("saved"), std::string(optimizer) + "/step-000007");
        EXPECT_EQ(second.json().at("save_ns").size(), 3U) << "after steps 4, 6 and 7";
        EXPECT_EQ(second.json().at("save_pause_ns").size(), 3U);
        EXPECT_EQ(losses_of(second), without_first(other_rate, 3)) << "with the saved learning rate";
        EXPECT_NE(losses_of(second), without_first(expected, 3));
    }
}

TEST(Saving, AnotherLayoutContinuesToRounding) {
    const User user;
    const auto expect_continues = [&](const std::string& model, const std::string& before, const std::string& after) {
        user.types_to_shell("rm -rf d");
        const std::vector<double> expected = losses_of(user.succeeds(model + before + " --steps 6"));
        user.succeeds(model + before + " --steps 3 --save d");
        const std::vector<double> losses = losses_of(user.succeeds(model + after + " --steps 6 --save d --resume"));
        ASSERT_EQ(losses.size(), 3U);
        for (std::size_t k = 0; k < losses.size(); ++k) {
            EXPECT_NEAR(losses[k], expected[k + 3], 1e-4) << model << after;
        }
    };
    expect_continues(kTransformer, "--balance 2,2 -m 4", "--balance 1,2,1 -m 4 --schedule 1f1b --checkpoint always");
    // Dropout draws anew for each micro-batch; without it, their number may change too.
    expect_continues("run mlp:layers=4,width=16 --batch 4 --optimizer adam --json ", "--balance 2,2 -m 2",
                     "--balance 3,1 -m 4");
}

TEST(Saving, AnyNumberOfProcessesContinues) {
    const User user;
    const std::vector<double> expected = losses_of(user.succeeds(kMlp + "--steps 10"));
    const auto expect_continues = [&](const std::string& line, std::size_t from) {
        const std::vector<double> losses = losses_of(user.succeeds(line));
        ASSERT_EQ(losses.size(), 2U) << line;
        for (std::size_t k = 0; k < losses.size(); ++k) {
            EXPECT_NEAR(losses[k], expected[from + k], 1e-4) << line;
        }
    };
    expect_continues("launch -n 2 -- " + kMlp + "--steps 2 --save d", 0);
    EXPECT_TRUE(user.has("d/step-000002/model-00002-of-00002.safetensors"));
    expect_continues(kMlp + "--steps 4 --save d --resume", 2);
    expect_continues("launch -n 2 -- " + kMlp + "--steps 6 --save d --resume --save-every 1", 4);
    EXPECT_TRUE(user.has("d/step-000006/optimizer-00001-of-00002.safetensors"));
    // Two replicas hold the same tensors; the first saves them.
    expect_continues("launch -n 4 -- " + kMlp + "--replicas 2 --steps 8 --save d --resume", 6);
    expect_continues(kMlp + "--steps 10 --save d --resume", 8);
}

TEST(Saving, LaunchStartsAgainFromTheLastSavedStep) {
    const User user;
    const std::vector<double> expected = losses_of(user.succeeds(kMlp + "--steps 1500"));
    const CommandResult run = user.types_to_shell(
        "timeout 100 '" PIPESCOPE_BIN_FOLDER "/pipescope' launch -n 2 --restarts 2 -- " + kMlp +
        "--steps 1500 --save d --save-every 100 >.stdout 2>.stderr & launcher=$!\n"
        "for i in $(seq 500); do sleep 0.02; if ls -d d/step-*00 >.none; then break; fi; done 2>.none\n"
        "kill -KILL $(pgrep -P $(pgrep -P $launcher) | tail -1)\nwait $launcher");
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_THAT(run.err, testing::HasSubstr("was ended by signal 9"));
    EXPECT_THAT(run.err, testing::HasSubstr("starting again (1 of 2 restarts)"));
    const auto object = run.json();
    EXPECT_GE(object.at("resumed_from"), 100);
    const std::vector<double> losses = losses_of(run);
    ASSERT_LT(losses.size(), 1401U);
    ASSERT_GT(losses.size(), 10U);
    for (std::size_t k = 0; k < losses.size(); ++k) {
        EXPECT_EQ(losses[k], expected[expected.size() - losses.size() + k]) << k;
    }
}

TEST(Saving, TheFilesHaveTheNamesOfThePlainModel) {
    const User user;
    user.succeeds(kMlp + "--steps 2 --save d");
    const auto model = nlohmann::json::parse(user.reads("d/step-000002/model.safetensors.index.json"));
    EXPECT_EQ(model.at("weight_map").at("0.linear.weight"), "model-00001-of-00001.safetensors");
    EXPECT_EQ(model.at("metadata").at("total_size"), 4 * (16 * 16 + 16) * 4);
    const auto optimizer = nlohmann::json::parse(user.reads("d/step-000002/optimizer.safetensors.index.json"));
    for (const char* name : {"0.linear.weight.exp_avg", "0.linear.weight.exp_avg_sq", "0.linear.weight.step"}) {
        EXPECT_TRUE(optimizer.at("weight_map").contains(name)) << name;
    }
    const auto training = nlohmann::json::parse(user.reads("d/step-000002/training.json"));
    EXPECT_EQ(training.at("model"), "mlp:layers=4,width=16");
    EXPECT_EQ(training.at("learning_rate"), 0.001);
}

// A save that a thread wrote while the training went on, as the library of the format's authors reads it.
TEST(Saving, TheFilesAreReadByTheLibraryOfTheFormat) {
    const User user;
    const std::string python = "'" PIPESCOPE_PYTHON "' ";
    if (user.types_to_shell(python + "-c 'import safetensors.numpy' 2>.stderr").code != 0) {
        GTEST_SKIP() << "scripts/setup installs safetensors";
    }
    user.succeeds("launch -n 2 -- " + kMlp + "--steps 7 --save d --save-every 2");
    EXPECT_TRUE(user.has("d/step-000006"));
    user.writes("read.py", R"(
import json, pathlib, sys
from safetensors.numpy import load_file
for step in sorted(pathlib.Path("d").iterdir()):
    checksums = json.loads((step / "training.json").read_text())["checksums"]
    for kind in ["model", "optimizer"]:
        index = json.loads((step / f"{kind}.safetensors.index.json").read_text())
        found, total = {}, 0
        for file in sorted(step.glob(f"{kind}-*.safetensors")):
            tensors = load_file(file)
            assert checksums[file.name]["tensors"].keys() == tensors.keys(), file
            found.update((name, file.name) for name in tensors)
            total += sum(tensor.nbytes for tensor in tensors.values())
        assert found == index["weight_map"] and total == index["metadata"]["total_size"], (step, kind)
        assert any(name.startswith("0.linear.weight") for name in found), found
)");
    EXPECT_EQ(user.types_to_shell(python + "read.py 2>.stderr").code, 0) << user.reads(".stderr");
    user.succeeds("doctor --save d");
}

TEST(Saving, ATraceOfAResumedRunCanBeCompared) {
    const User user;
    const std::string run = kMlp + "--save d --resume --trace t.sqlite --force --steps ";
    user.succeeds(run + "2");
    user.succeeds(run + "6");
    const auto compared = user.succeeds("compare t.sqlite --json").json();
    EXPECT_EQ(compared.at("steps").size(), 2U) << "two of four were warm-up";
    EXPECT_EQ(compared.at("tasks_unmatched"), 0);
}

TEST(Saving, ResumeStartsFromTheBeginningOrHasNothingLeft) {
    const User user;
    const CommandResult first = user.succeeds(kMlp + "--save d --resume --steps 2");
    EXPECT_TRUE(first.json().at("resumed_from").is_null());
    EXPECT_THAT(first.err, HasSubstr("warning: d holds no saved step, so --resume begins a new training"));
    user.types_to_shell("mkdir f && touch f/step-000002");
    EXPECT_THAT(user.types(kMlp + "--save f --resume --steps 1").err,
                HasSubstr("f holds no saved step (step-000002 is none: a saved step is a folder such as step-000100)"));
    const CommandResult done = user.succeeds(kMlp + "--save d --resume --steps 2 --trace t.sqlite");
    EXPECT_TRUE(done.json().at("steps").empty());
    EXPECT_EQ(done.json().at("resumed_from"), 2);
    EXPECT_EQ(done.json().at("saved"), "d/step-000002");
    EXPECT_FALSE(user.has("t.sqlite"));
    const std::string text = kMlp.substr(0, kMlp.find(" --json"));
    EXPECT_THAT(user.succeeds(text + " --save d --resume --steps 2").out, HasSubstr("nothing is left to train"));
    EXPECT_THAT(user.succeeds(text + " --save e --resume --steps 2").out,
                AllOf(HasSubstr("started from the beginning: there was no saved step in e"), HasSubstr("saved e/")));
    EXPECT_THAT(user.succeeds(text + " --save d --resume --steps 3").out,
                HasSubstr("continued after step 2 of d/step-000002"));
}

TEST(Saving, WrongOptionsAreRefused) {
    const User user;
    user.writes("e.json", R"({"format": "pipescope.profile", "version": 1, "samples": [1], "layers": [
        {"name": "a", "forward_ns": [1000], "backward_ns": [2000], "output_bytes": [8], "parameter_bytes": 8}]})");
    const auto refuses = [&](const std::string& line, const std::string& why, const std::string& remedy) {
        const CommandResult run = user.types(line);
        EXPECT_EQ(run.code, 2) << line;
        EXPECT_THAT(run.err, AllOf(HasSubstr(why), HasSubstr(remedy)));
    };
    refuses(kMlp + "--resume", "--resume is given without --save", "add --save DIR");
    refuses(kMlp + "--save-every 3", "--save-every is given without --save", "add --save DIR");
    refuses(kMlp + "--save d --save-every 0", "--save-every is 0", "use 1 or more");
    refuses("run emulated:e.json --balance 1 -m 1 --batch 1 --save d", "an emulated model", "leave it out");
    EXPECT_FALSE(user.has("d"));
}

TEST(Saving, AnotherTrainingIsRefusedAndItsStepsStay) {
    const User user;
    user.succeeds(kMlp + "--steps 2 --save d");
    const auto refuses = [&](const std::string& line, const std::string& why) {
        const CommandResult run = user.types(line);
        EXPECT_EQ(run.code, 1) << line;
        EXPECT_THAT(run.err, AllOf(HasSubstr("d/step-000002"), HasSubstr(why)));
    };
    EXPECT_THAT(user.types(kMlp + "--steps 2 --save d").err,
                AllOf(HasSubstr("step-000002 of an earlier run"), HasSubstr("use --resume")));
    refuses(kMlp + "--save d --resume --seed 4", "use --seed 0");
    refuses("run mlp:layers=4,width=16 --balance 2,2 -m 2 --batch 4 --save d --resume", "use --optimizer adam");
    refuses("run mlp:layers=4,width=32 --balance 2,2 -m 2 --batch 4 --optimizer adam --save d --resume",
            "use MODEL mlp:layers=4,width=16");
    const std::string model = user.reads("d/step-000002/model-00001-of-00001.safetensors");
    user.writes("d/step-000002/model-00001-of-00001.safetensors", model.substr(0, model.size() - 1));
    refuses(kMlp + "--save d --resume --steps 4", "bytes of tensors");
    user.writes("d/step-000002/model-00001-of-00001.safetensors", model);
    // The same name, another model: the training file was edited, or a library changed.
    auto training = nlohmann::json::parse(user.reads("d/step-000002/training.json"));
    training["model"] = "mlp:layers=4,width=32";
    user.writes("d/step-000002/training.json", training.dump());
    refuses("run mlp:layers=4,width=32 --balance 2,2 -m 2 --batch 4 --optimizer adam --save d --resume",
            "a value was changed since it was saved");
    training.erase("checksum");
    training.erase("checksums");
    user.writes("d/step-000002/training.json", training.dump());
    refuses("run mlp:layers=4,width=32 --balance 2,2 -m 2 --batch 4 --optimizer adam --save d --resume",
            "0.linear.weight as F32 of shape [16, 16]; the model has F32 of shape [32, 32]");
    EXPECT_TRUE(user.has("d/step-000002/training.json"));
}

TEST(Saving, AFlippedBitIsRefusedAndTheNewestWholeSaveNamed) {
    const User user;
    user.succeeds(kMlp + "--steps 4 --save d --save-every 2");
    EXPECT_THAT(user.succeeds("doctor --save d").out, HasSubstr("33 tensors"));
    const std::string file = "d/step-000004/model-00001-of-00001.safetensors";
    std::string model = user.reads(file);
    model.back() ^= 0x40;
    user.writes(file, model);
    const std::string line = kMlp + "--steps 6 --save d --resume";
    for (const std::string& each : {line, "launch -n 2 -- " + line}) {
        const CommandResult run = user.types(each);
        EXPECT_EQ(run.code, 1) << each;
        EXPECT_THAT(run.err, AllOf(HasSubstr(file + ": the tensor \""), HasSubstr("has the checksum"),
                                   HasSubstr("the newest save that is whole is d/step-000002; to continue from there, "
                                             "move d/step-000004 away")))
            << each;
    }
    const CommandResult doctor = user.types("doctor --save d --json");
    EXPECT_EQ(doctor.code, 1);
    const auto checks = doctor.json().at("checks");
    ASSERT_EQ(checks.size(), 2U);
    EXPECT_EQ(checks[0].at("name"), "step-000002");
    EXPECT_EQ(checks[0].at("ok"), true);
    EXPECT_EQ(checks[1].at("ok"), false);
    EXPECT_THAT(checks[1].at("detail").get<std::string>(), HasSubstr(file + ": the tensor"));
    EXPECT_EQ(user.types("doctor --save d/step-000002").code, 0);
    EXPECT_THAT(user.types("doctor --save d/step-000002/none").err, HasSubstr("holds no saved step"));
    user.types_to_shell("mv d/step-000004 away");
    EXPECT_EQ(user.succeeds(line).json().at("resumed_from"), 2);
}

TEST(Saving, AnIndexThatLostATensorIsRefusedAndTheNewestWholeSaveNamed) {
    const User user;
    user.succeeds(kMlp + "--steps 4 --save d --save-every 2");
    for (const std::string kind : {"model", "optimizer"}) {
        const std::string file = "d/step-000004/" + kind + ".safetensors.index.json";
        const std::string before = user.reads(file);
        auto index = nlohmann::json::parse(before);
        const std::string lost = index.at("weight_map").begin().key();
        index.at("weight_map").erase(lost);
        user.writes(file, index.dump());
        for (const std::string& line :
             {kMlp + "--steps 6 --save d --resume", std::string("doctor --save d/step-000004")}) {
            const CommandResult result = user.types(line);
            EXPECT_EQ(result.code, 1) << line;
            EXPECT_THAT(result.out + result.err, HasSubstr(file + " does not name the tensor \"" + lost + "\""))
                << line;
        }
        EXPECT_THAT(user.types(kMlp + "--steps 6 --save d --resume").err,
                    HasSubstr("the newest save that is whole is d/step-000002"));
        user.writes(file, before);
    }
    EXPECT_EQ(user.succeeds(kMlp + "--steps 6 --save d --resume").json().at("resumed_from"), 4);
}

TEST(Saving, ATraceNeverReplacesAFileOfTheSave) {
    const User user;
    user.succeeds(kMlp + "--steps 2 --save d");
    const std::string before = user.reads("d/step-000002/training.json");
    EXPECT_THAT(user.types(kMlp + "--steps 4 --save d --resume --trace d/step-000002/training.json --force").err,
                HasSubstr("training.json is by its name a part of a saved step"));
    EXPECT_EQ(user.reads("d/step-000002/training.json"), before);
    for (const std::string trace : {"d/step-000004", "d/step-000004.partial", "d/step-000002/t.sqlite"}) {
        EXPECT_THAT(user.types(kMlp + "--steps 4 --save d --resume --trace " + trace).err,
                    HasSubstr("--trace is " + trace + ", in a step of --save d; "));
    }
    EXPECT_THAT(user.types(kMlp + "--steps 2 --save e --trace ./e").err, HasSubstr("--trace and --save are both e; "));
    user.succeeds(kMlp + "--steps 4 --save d --resume --trace d/t.sqlite");
}

TEST(Saving, ASaveWithoutChecksumsIsLoadedWithAWarning) {
    const User user;
    user.succeeds(kMlp + "--steps 2 --save d");
    auto training = nlohmann::json::parse(user.reads("d/step-000002/training.json"));
    training.erase("checksum");
    training.erase("checksums");
    user.writes("d/step-000002/training.json", training.dump());
    EXPECT_THAT(user.succeeds("doctor --save d").out, AllOf(HasSubstr("note"), HasSubstr("without checksums")));
    const CommandResult run = user.succeeds(kMlp + "--steps 4 --save d --resume");
    EXPECT_EQ(run.json().at("resumed_from"), 2);
    EXPECT_THAT(run.err, HasSubstr("warning: d/step-000002 has no checksums"));
}

TEST(Saving, AStoppedRunSavesItsLastStep) {
    const User user;
    const CommandResult run = user.types_to_shell(
        "timeout --foreground 100 '" PIPESCOPE_BIN_FOLDER "/pipescope' " + kMlp +
        "--steps 10000000 --save d --save-every 20 >.stdout 2>.stderr & waiter=$!\n"
        "for i in $(seq 900); do sleep 0.1; if ls -d d/step-*0 >.none; then break; fi; done 2>.none\n"
        "kill -TERM $(pgrep -P $waiter)\nwait $waiter");
    EXPECT_EQ(run.code, 143) << run.err;
    const std::size_t steps = run.json().at("steps").size();
    EXPECT_EQ(run.json().at("interrupted"), true);
    char name[32];
    std::snprintf(name, sizeof name, "d/step-%06zu", steps);
    EXPECT_EQ(run.json().at("saved"), name);
    EXPECT_TRUE(user.has(name));
}

// No file may exceed 400 KiB, which looks like a full disk to everything but the trace, which is kept below.
TEST(Saving, TrainsOnWhereTheDiskIsFullAndSaysSo) {
    const User user;
    const std::string run = "run mlp:layers=2,width=256 --balance 1,1 -m 2 --batch 2 --json --save d --save-every 1 ";
    user.succeeds(run + "--steps 1");
    const CommandResult full =
        user.types_to_shell("trap '' XFSZ; ulimit -f 800; timeout 100 '" PIPESCOPE_BIN_FOLDER "/pipescope' " + run +
                            "--resume --steps 3 >.stdout 2>.stderr");
    EXPECT_EQ(full.code, 1);
    EXPECT_EQ(full.json().at("steps").size(), 2U);
    EXPECT_EQ(full.json().at("saved"), "d/step-000001") << "the last step that is whole";
    EXPECT_THAT(full.err, AllOf(HasSubstr("warning: step 2 is not saved, and the training continues"),
                                HasSubstr("the training continued, and its last step is not saved"),
                                HasSubstr("free some space")));
    EXPECT_FALSE(user.has("d/step-000002.partial"));
    EXPECT_EQ(user.succeeds(run + "--resume --steps 3").json().at("resumed_from"), 1);
}

TEST(Saving, AFolderThatMayNotBeWrittenIsRefusedBeforeTheTraining) {
    const User user;
    const std::string unprivileged = geteuid() == 0 ? "setpriv --bounding-set=-dac_override " : "";
    user.types_to_shell("mkdir there && chmod 555 there");
    if (user.types_to_shell(unprivileged + "true 2>.stderr").code != 0 ||
        user.types_to_shell(unprivileged + "touch there/a 2>.stderr").code == 0) {
        GTEST_SKIP() << "this user may write everywhere, and cannot give that up";
    }
    for (const char* folder : {"there", "there/d", "no/d"}) {
        const CommandResult run =
            user.types_to_shell(unprivileged + "timeout 100 '" PIPESCOPE_BIN_FOLDER "/pipescope' " + kMlp + "--save " +
                                folder + " >.stdout 2>.stderr");
        EXPECT_EQ(run.code, 1) << folder;
        EXPECT_EQ(run.out, "") << folder;
        EXPECT_THAT(run.err, HasSubstr(folder));
    }
}

/// The newest saved step of a folder that another process writes; -1: none.
std::int64_t newest_step(const fs::path& folder) {
    std::int64_t newest = -1;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
         entry.increment(error)) {
        const std::string name = entry->path().filename();
        if (name.starts_with("step-") && !name.ends_with(".partial")) {
            newest = std::max<std::int64_t>(newest, std::stoll(name.substr(5)));
        }
    }
    return newest;
}

pid_t start(const std::vector<std::string>& words, const fs::path& output) {
    std::vector<char*> arguments;
    for (const std::string& word : words) {
        arguments.push_back(const_cast<char*>(word.c_str()));
    }
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    pid_t child = -1;
    EXPECT_EQ(posix_spawn(&child, arguments[0], &files, nullptr, arguments.data(), environ), 0);
    posix_spawn_file_actions_destroy(&files);
    return child;
}

// Each kill comes at a random instant after a first step was saved, so most of them fall into a save.
TEST(Saving, AKillAtAnyInstantLosesNothingThatWasSaved) {
    const User user;
    const std::string run = "run mlp:layers=4,width=16 --balance 2,2 -m 2 --batch 4 --optimizer adam --steps 1000 ";
    const std::vector<double> expected = losses_of(user.succeeds(run + "--json"));
    const fs::path folder = user.folder() / "d";
    std::mt19937 random(7);
    int left_over = 0;
    for (int kill_number = 0; kill_number < 20; ++kill_number) {
        const std::int64_t before = newest_step(folder);
        ASSERT_LT(before, 1000);
        const pid_t child = start({PIPESCOPE_BIN_FOLDER "/pipescope", "run", "mlp:layers=4,width=16", "--balance",
                                   "2,2", "-m", "2", "--batch", "4", "--optimizer", "adam", "--steps", "1000", "--save",
                                   folder.string(), "--save-every", "1", "--resume"},
                                  user.folder() / "log");
        for (int wait = 0; wait < 60'000 && newest_step(folder) <= before && kill(child, 0) == 0; ++wait) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 80'000));
        kill(child, SIGKILL);
        int status = 0;
        waitpid(child, &status, 0);
        ASSERT_GT(newest_step(folder), before) << user.reads("log");
        for (const auto& entry : fs::directory_iterator(folder)) {
            left_over += entry.path().extension() == ".partial" ? 1 : 0;
        }
    }
    const CommandResult last = user.succeeds(run + "--save d --save-every 50 --resume --json");
    const auto resumed_from = last.json().at("resumed_from").get<std::int64_t>();
    EXPECT_GE(resumed_from, 20);
    EXPECT_LT(resumed_from, 1000);
    EXPECT_EQ(losses_of(last), without_first(expected, resumed_from));
    EXPECT_GT(left_over, 0) << "no kill fell into a save, so this proves little";
    for (const auto& entry : fs::directory_iterator(folder)) {
        EXPECT_NE(entry.path().extension(), ".partial") << entry.path();
    }
}
}  // namespace
}  // namespace pipescope
