// Saved steps in a folder: written by one or several ranks, whole or not at all, and old ones removed.

#include "save/save_folder.h"

#include "save/save_error.h"
#include "save/saved_step.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <barrier>
#include <csignal>
#include <thread>

namespace pipescope {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TensorToWrite number(const std::string& name, std::int64_t value) {
    return {name, "I64", {}, [value] { return std::make_shared<const std::int64_t>(value); }};
}

TensorsToSave tensors(const std::string& name, std::int64_t value) {
    return {{number(name, value)}, {number(name + ".step", value)}, {{name + "_again", name}}};
}

std::int64_t value_of(SavedTensors& saved, const std::string& name) {
    std::int64_t value = 0;
    saved.read(name, std::as_writable_bytes(std::span(&value, 1)));
    return value;
}

std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
        names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
}

TEST(SaveFolder, HoldsTheNewestTwoStepsAndWhatOthersPutThere) {
    const TemporaryFolder folder;
    fs::create_directory(folder / "saves");
    write_text(folder / "saves/notes.txt", "mine");
    SaveFolder saves(folder / "saves");
    for (const std::int64_t step : {9, 10, 11, 1000000}) {
        EXPECT_EQ(saves.save({.step = step}, tensors("a", step)), folder / "saves" / name_of_step(step));
    }
    EXPECT_THAT(names_in(folder / "saves"), ElementsAre("notes.txt", "step-000011", "step-1000000"));
    EXPECT_THAT(saved_steps(folder / "saves"),
                ElementsAre(folder / "saves/step-000011", folder / "saves/step-1000000"));
    EXPECT_THAT(
        names_in(folder / "saves/step-000011"),
        ElementsAre("model-00001-of-00001.safetensors", "model.safetensors.index.json",
                    "optimizer-00001-of-00001.safetensors", "optimizer.safetensors.index.json", "training.json"));
}

TEST(SaveFolder, LeavesAnOldStepThatHoldsFilesOfOthers) {
    const TemporaryFolder folder;
    SaveFolder saves(folder.path());
    saves.save({.step = 1}, tensors("a", 1));
    write_text(folder / "step-000001/notes.txt", "mine");
    saves.save({.step = 2}, tensors("a", 2));
    saves.save({.step = 3}, tensors("a", 3));
    EXPECT_THAT(names_in(folder.path()), ElementsAre("step-000001", "step-000002", "step-000003"));
    EXPECT_TRUE(fs::exists(folder / "step-000001/training.json"));
}

TEST(SaveFolder, GivesBackStateAndTensors) {
    const TemporaryFolder folder;
    const TrainingState state{
        .step = 12, .model = "mlp \"odd\"", .optimizer = "adam", .learning_rate = 0.1, .seed = ~std::uint64_t{0}};
    const fs::path step = SaveFolder(folder / "saves").save(state, tensors("0.weight", 5));
    EXPECT_EQ(load_training_state(step), state);
    SavedTensors model(step, TensorKind::model);
    EXPECT_EQ(value_of(model, "0.weight"), 5);
    EXPECT_FALSE(model.contains("0.weight_again"));
    EXPECT_THAT(thrown<SaveError>([&] { model.find("1.weight"); }), HasSubstr("no tensor \"1.weight\""));
    SavedTensors optimizer(step, TensorKind::optimizer);
    EXPECT_EQ(value_of(optimizer, "0.weight.step"), 5);
    const auto index = nlohmann::json::parse(read_text(step / "model.safetensors.index.json"));
    EXPECT_EQ(index.at("metadata").at("total_size"), 8);
    EXPECT_EQ(index.at("weight_map").at("0.weight"), "model-00001-of-00001.safetensors");
    const SafetensorsFile file(step / "model-00001-of-00001.safetensors");
    EXPECT_THAT(file.header().metadata, ElementsAre(Pair("0.weight_again", "0.weight"), Pair("format", "pt")));
}

/// Threads as ranks: each saves one tensor named after it. Returns each rank's error, empty if it saved.
std::vector<std::string> save_by_ranks(const fs::path& folder, int num_ranks,
                                       const std::function<TensorsToSave(int rank)>& own) {
    std::barrier barrier(num_ranks);
    std::vector<std::string> errors(static_cast<std::size_t>(num_ranks));
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < num_ranks; ++rank) {
        ranks.emplace_back([&, rank] {
            SaveFolder saves(folder, {rank, num_ranks, [&] { barrier.arrive_and_wait(); }});
            try {
                saves.save({.step = 1}, own(rank));
            } catch (const std::exception& error) {
                errors[static_cast<std::size_t>(rank)] = error.what();
            }
        });
    }
    for (std::thread& rank : ranks) {
        rank.join();
    }
    return errors;
}

TEST(SaveFolder, TakesATrainingOfSeveralRanks) {
    const TemporaryFolder folder;
    const auto own = [](int rank) { return tensors(std::to_string(rank) + ".weight", rank); };
    EXPECT_THAT(save_by_ranks(folder / "saves", 3, own), ElementsAre("", "", ""));
    SavedTensors model(folder / "saves/step-000001", TensorKind::model);
    EXPECT_THAT(model.files(), ElementsAre(Pair("0.weight", "model-00001-of-00003.safetensors"),
                                           Pair("1.weight", "model-00002-of-00003.safetensors"),
                                           Pair("2.weight", "model-00003-of-00003.safetensors")));
    fs::remove(folder / "saves/step-000001/model-00001-of-00003.safetensors");
    EXPECT_EQ(value_of(model, "2.weight"), 2) << "opens only the files it needs";
}

TEST(SaveFolder, OfSeveralRanksSavesNothingIfOneOfThemFails) {
    for (const int failing : {0, 1}) {
        const TemporaryFolder folder;
        const auto own = [failing](int rank) {
            TensorsToSave each = tensors(std::to_string(rank), rank);
            if (rank == failing) {
                each.optimizer[0].data = []() -> std::shared_ptr<const void> { throw SaveError("this rank fails"); };
            }
            return each;
        };
        const std::vector<std::string> errors = save_by_ranks(folder / "saves", 2, own);
        EXPECT_EQ(errors[static_cast<std::size_t>(failing)], "this rank fails");
        EXPECT_THAT(errors[static_cast<std::size_t>(1 - failing)],
                    HasSubstr(failing == 1 ? "rank 1 could not write optimizer-00002-of-00002.safetensors"
                                           : "step-000001 is not there"));
        EXPECT_TRUE(fs::is_empty(folder / "saves"));
    }
    const TemporaryFolder folder;
    const auto same = [](int) { return tensors("a", 1); };
    EXPECT_THAT(save_by_ranks(folder / "saves", 2, same),
                ElementsAre(HasSubstr("both hold the tensor \"a\""), HasSubstr("another rank could not save")));
}

TEST(SaveFolder, RemovesWhatAKilledRunLeftUnfinished) {
    const TemporaryFolder folder;
    fs::create_directories(folder / "step-000005.partial");
    write_text(folder / "step-000005.partial/model-00001-of-00001.safetensors", "half");
    fs::create_directories(folder / "step-000006.partial");
    write_text(folder / "step-000006.partial/notes.txt", "mine");
    SaveFolder saves(folder.path());
    EXPECT_THAT(names_in(folder.path()), ElementsAre("step-000006.partial"));
    EXPECT_THAT(thrown<SaveError>([&] { saves.save({.step = 6}, tensors("a", 6)); }),
                AllOf(HasSubstr("step-000006.partial"), HasSubstr("holds files of others")));
    EXPECT_TRUE(fs::exists(folder / "step-000006.partial/notes.txt"));
    saves.save({.step = 7}, tensors("a", 7));
}

TEST(SaveFolder, ReplacesNothing) {
    const TemporaryFolder folder;
    write_text(folder / "step-000001", "a file");
    SaveFolder saves(folder.path());
    EXPECT_THAT(thrown<SaveError>([&] { saves.save({.step = 1}, tensors("a", 1)); }),
                AllOf(HasSubstr("step-000001 exists already"), HasSubstr("move it away")));
    EXPECT_EQ(read_text(folder / "step-000001"), "a file");
    EXPECT_THAT(saved_steps(folder.path()), ElementsAre());
    EXPECT_THAT(thrown<SaveError>([&] { SaveFolder(folder / "step-000001"); }), HasSubstr("File exists"));
    EXPECT_THAT(thrown<SaveError>([&] { SaveFolder(folder / "a/b/c"); }), HasSubstr("No such file"));
}

TEST(SaveFolder, BelongsToOneRunAtATime) {
    const TemporaryFolder folder;
    {
        const SaveFolder first(folder.path());
        EXPECT_THAT(thrown<SaveError>([&] { SaveFolder(folder.path()); }),
                    HasSubstr("another run saves into " + folder.path().string()));
    }
    const SaveFolder second(folder.path());
}

/// While it lives, a file may not grow beyond that size, as on a full disk.
class SmallDisk {
public:
    explicit SmallDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
        getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit small{bytes, before_.rlim_max};
        setrlimit(RLIMIT_FSIZE, &small);
    }
    ~SmallDisk() {
        setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;

private:
    void (*handler_)(int);
    rlimit before_{};
};

TEST(SaveFolder, KeepsTheLastStepIfTheDiskIsFull) {
    const TemporaryFolder folder;
    SaveFolder saves(folder.path());
    saves.save({.step = 1}, tensors("a", 1));
    {
        const SmallDisk disk(100);
        EXPECT_THAT(thrown<SaveError>([&] { saves.save({.step = 2}, tensors("a", 2)); }),
                    AllOf(HasSubstr("cannot be written"), HasSubstr("free some space")));
        EXPECT_THAT(names_in(folder.path()), ElementsAre("step-000001"));
    }
    saves.save({.step = 2}, tensors("a", 2));
    EXPECT_THAT(names_in(folder.path()), ElementsAre("step-000001", "step-000002"));
}

TEST(SavedStep, DamagedIsRefusedWithItsFile) {
    const TemporaryFolder folder;
    const fs::path step = SaveFolder(folder.path()).save({.step = 1}, tensors("a", 1));
    const auto with = [&step](const fs::path& file, const std::string& text, const auto& read, const std::string& why) {
        const std::string before = read_text(file);
        write_text(file, text);
        EXPECT_THAT(thrown<SaveError>(read), AllOf(HasSubstr(step), HasSubstr(why), HasSubstr("away")));
        write_text(file, before);
    };
    const auto state = [&] { load_training_state(step); };
    const auto index = [&] { SavedTensors(step, TensorKind::model); };
    const auto tensor = [&] { SavedTensors(step, TensorKind::model).find("a"); };
    const std::string whole = read_text(step / "training.json");
    const auto changed = [&](const std::string& from, const std::string& to) {
        return std::string(whole).replace(whole.find(from), from.size(), to);
    };
    with(step / "training.json", "", state, "cannot be read");
    with(step / "training.json", "{}", state, "no \"format\"");
    with(step / "training.json", changed("pipescope.training", "x"), state, "\"format\" is \"x\"");
    with(step / "training.json", changed("\"step\": ", "\"step\": 7"), state, "in the folder of step 1");
    with(step / "training.json", changed("\"version\": 1", "\"version\": 2"), state, "this PipeScope reads 1");
    with(step / "training.json", changed("\"step\": 1", "\"step\": -1"), state, "\"step\" is -1");
    with(step / "training.json", changed("\"step\": 1", "\"step\": 4294967296"), state, "2^31 - 1");
    with(step / "training.json", changed("\"learning_rate\": 0.0", "\"learning_rate\": \"x\""), state, "learning_rate");
    with(step / "training.json", changed("\"seed\": 0", "\"seed\": 0.5"), state, "\"seed\" is 0.5");
    const fs::path map = step / "model.safetensors.index.json";
    with(map, "{}", index, "no \"weight_map\"");
    with(map, R"({"weight_map": []})", index, "\"weight_map\" is []");
    with(map, R"({"weight_map": {"a": "../other"}})", index, "name of a file in the index");
    with(map, R"({"weight_map": {"a": 1}})", index, "name of a file in the index");
    with(map, R"({"weight_map": {"a": "x"}})", tensor, "No such file");
    with(
        map, R"({"weight_map": {"b": "model-00001-of-00001.safetensors"}})",
        [&] { SavedTensors(step, TensorKind::model).find("b"); }, "which the index names");
    const fs::path model = step / "model-00001-of-00001.safetensors";
    with(model, read_text(model).substr(0, 20), tensor, "its first 8 bytes say");
    SavedTensors undamaged(step, TensorKind::model);
    EXPECT_EQ(value_of(undamaged, "a"), 1);
}

TEST(SavedSteps, AreThoseWithAName) {
    const TemporaryFolder folder;
    EXPECT_THAT(saved_steps(folder / "none"), ElementsAre());
    for (const char* name : {"step-000002", "step-1000000", "step-000010", "step-12", "step-0000003", "step-00000x",
                             "step-99999999999999999999", "step--00001", "Step-000001", "step-000004.partial"}) {
        fs::create_directory(folder / name);
    }
    EXPECT_THAT(saved_steps(folder.path()),
                ElementsAre(folder / "step-000002", folder / "step-000010", folder / "step-1000000"));
}
}  // namespace
}  // namespace pipescope
