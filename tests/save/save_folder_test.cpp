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

#include <array>
#include <atomic>
#include <barrier>
#include <cmath>
#include <csignal>
#include <functional>
#include <future>
#include <thread>

namespace pipescope {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
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
    EXPECT_EQ(load_training_record(step).state, state);
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

/// Tensors whose bytes are there once `open` is set.
TensorsToSave gated(std::shared_future<void> open) {
    TensorsToSave each = tensors("a", 7);
    each.model[0].data = [open, data = each.model[0].data] {
        open.wait();
        return data();
    };
    return each;
}

TEST(SaveFolder, WritesAStepWhileTheCallerGoesOn) {
    const TemporaryFolder folder;
    SaveFolder saves(folder / "saves");
    EXPECT_FALSE(saves.is_saving());
    std::promise<void> open;
    saves.begin({.step = 5}, gated(open.get_future().share()), Writing::in_background);
    EXPECT_TRUE(saves.is_saving());
    EXPECT_FALSE(saves.is_written());
    EXPECT_THAT(saved_steps(folder / "saves"), IsEmpty());
    open.set_value();
    EXPECT_EQ(saves.finish(), folder / "saves/step-000005");
    EXPECT_FALSE(saves.is_saving());
    EXPECT_GT(saves.last_duration().count(), 0);
    EXPECT_EQ(check_saved_step(folder / "saves/step-000005").fault, "");
}

TEST(SaveFolder, WrittenAtOnceIsWrittenWhenBeginReturns) {
    const TemporaryFolder folder;
    SaveFolder saves(folder / "saves");
    saves.begin({.step = 5}, tensors("a", 7), Writing::at_once);
    EXPECT_TRUE(saves.is_written());
    EXPECT_EQ(saves.finish(), folder / "saves/step-000005");
}

TEST(SaveFolder, SaysInFinishWhyTheThreadFailed) {
    const TemporaryFolder folder;
    SaveFolder saves(folder / "saves");
    TensorsToSave failing = tensors("a", 7);
    failing.optimizer[0].data = []() -> std::shared_ptr<const void> { throw SaveError("the disk is full"); };
    saves.begin({.step = 5}, std::move(failing), Writing::in_background);
    EXPECT_EQ(thrown<SaveError>([&] { saves.finish(); }), "the disk is full");
    EXPECT_TRUE(fs::is_empty(folder / "saves"));
    EXPECT_EQ(saves.save({.step = 5}, tensors("a", 7)), folder / "saves/step-000005") << "the next save goes on";
}

TEST(SaveFolder, EndsWithAWholeStepOrNone) {
    const TemporaryFolder folder;
    {
        std::promise<void> open;
        SaveFolder saves(folder / "saves");
        saves.begin({.step = 5}, gated(open.get_future().share()), Writing::in_background);
        open.set_value();
    }
    EXPECT_EQ(check_saved_step(folder / "saves/step-000005").fault, "");
    {
        TensorsToSave failing = tensors("a", 7);
        failing.optimizer[0].data = []() -> std::shared_ptr<const void> { throw SaveError("the disk is full"); };
        SaveFolder saves(folder / "saves");
        saves.begin({.step = 6}, std::move(failing), Writing::in_background);
    }
    EXPECT_THAT(names_in(folder / "saves"), ElementsAre("step-000005"));
}

TEST(SaveFolder, OfSeveralRanksWritesInTheBackground) {
    constexpr int kRanks = 3;
    const TemporaryFolder folder;
    std::barrier barrier(kRanks);
    std::atomic<int> written = 0;
    std::vector<std::thread> ranks;
    std::array<fs::path, kRanks> paths;
    for (int rank = 0; rank < kRanks; ++rank) {
        ranks.emplace_back([&, rank] {
            const auto all = [&](bool mine) {
                barrier.arrive_and_wait();
                written += mine ? 1 : 0;
                barrier.arrive_and_wait();
                const bool is_all = written == kRanks;
                barrier.arrive_and_wait();
                written = 0;
                return is_all;
            };
            SaveFolder saves(folder / "saves", {rank, kRanks, [&] { barrier.arrive_and_wait(); }, all});
            std::promise<void> open;
            TensorsToSave own = gated(open.get_future().share());
            own.model[0].name = own.optimizer[0].name = std::to_string(rank);
            saves.begin({.step = 1}, std::move(own), Writing::in_background);
            EXPECT_FALSE(saves.is_written());
            if (rank != 1) {
                open.set_value();
            }
            EXPECT_FALSE(saves.is_written()) << "rank 1 still writes";
            if (rank == 1) {
                open.set_value();
            }
            while (!saves.is_written()) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            EXPECT_FALSE(fs::exists(folder / "saves/step-000001"));
            barrier.arrive_and_wait();
            paths[static_cast<std::size_t>(rank)] = saves.finish();
        });
    }
    for (std::thread& rank : ranks) {
        rank.join();
    }
    EXPECT_THAT(paths, Each(folder / "saves/step-000001"));
    EXPECT_EQ(check_saved_step(folder / "saves/step-000001").fault, "");
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
    const auto state = [&] { load_training_record(step); };
    const auto index = [&] { SavedTensors(step, TensorKind::model); };
    const auto tensor = [&] { SavedTensors(step, TensorKind::model).find("a"); };
    const std::string whole =
        to_json(TrainingRecord{{.step = 1}, std::nullopt});  // no checksum, so rules of values decide
    const auto changed = [&](const std::string& from, const std::string& to) {
        return std::string(whole).replace(whole.find(from), from.size(), to);
    };
    with(step / "training.json", "", state, "is empty");
    with(step / "training.json", "{}", state, "format is missing");
    with(step / "training.json", changed("pipescope.training", "x"), state, "format is \"x\"");
    with(step / "training.json", changed("\"step\": ", "\"step\": 7"), state, "in the folder of step 1");
    with(step / "training.json", changed("\"version\": 1", "\"version\": 2"), state, "this PipeScope reads 1");
    with(step / "training.json", changed("\"step\": 1", "\"step\": -1"), state, "step is -1");
    with(step / "training.json", changed("\"step\": 1", "\"step\": 4294967296"), state, "2^31 - 1");
    with(step / "training.json", changed("\"learning_rate\": 0.0", "\"learning_rate\": \"x\""), state, "learning_rate");
    with(step / "training.json", changed("\"learning_rate\": 0.0", "\"learning_rate\": 1e308"), state,
         "from 0 to 1e+30");
    with(step / "training.json", changed("\"seed\": 0", "\"seed\": 0.5"), state, "seed is 0.5");
    const fs::path map = step / "model.safetensors.index.json";
    with(map, "{}", index, "weight_map is missing");
    with(map, R"({"weight_map": []})", index, "weight_map is []");
    with(map, R"({"weight_map": {"a": "../other"}})", index, "name of a file in the index");
    with(map, R"({"weight_map": {"a": 1}})", index, "name of a file in the index");
    const std::string own = R"("a": "model-00001-of-00001.safetensors")";
    with(
        map, R"({"weight_map": {)" + own + R"(, "b": "x"}})", [&] { SavedTensors(step, TensorKind::model).find("b"); },
        "x has no checksums in training.json");
    with(
        map, R"({"weight_map": {)" + own + R"(, "b": "model-00001-of-00001.safetensors"}})",
        [&] { SavedTensors(step, TensorKind::model).find("b"); }, "which the index names");
    with(map, R"({"weight_map": {)" + own + R"(}, "metadata": {"total_size": -5}})", index,
         "metadata.total_size is -5");
    with(map, R"({"weight_map": {)" + own + R"(}, "metadata": []})", tensor, "an object");
    const fs::path model = step / "model-00001-of-00001.safetensors";
    with(model, read_text(model).substr(0, 20), tensor, "its first 8 bytes say");
    SavedTensors undamaged(step, TensorKind::model);
    EXPECT_EQ(value_of(undamaged, "a"), 1);
}

/// Flips one bit of the file's byte, calls `use`, and undoes it.
void with_flipped_bit(const fs::path& file, std::size_t byte, int bit, const std::function<void()>& use) {
    const std::string before = read_text(file);
    std::string damaged = before;
    damaged.at(byte) = static_cast<char>(damaged.at(byte) ^ (1 << bit));
    write_text(file, damaged);
    use();
    write_text(file, before);
}

/// What reading the tensor "a" and all that leads to it gives.
std::string error_of_reading(const fs::path& step) {
    try {
        const TrainingRecord record = load_training_record(step);
        SavedTensors model(step, TensorKind::model, record);
        value_of(model, "a");
        return "";
    } catch (const SaveError& error) {
        return error.what();
    }
}

TEST(SavedStep, RefusesEveryFlippedBitOfATensorsFile) {
    const TemporaryFolder folder;
    const fs::path step = SaveFolder(folder.path()).save({.step = 1}, tensors("a", 1));
    const fs::path file = step / "model-00001-of-00001.safetensors";
    for (std::size_t byte = 0; byte < fs::file_size(file); ++byte) {
        with_flipped_bit(file, byte, static_cast<int>(byte % 8), [&] {
            EXPECT_THAT(error_of_reading(step), HasSubstr("model-00001-of-00001.safetensors")) << "byte " << byte;
            EXPECT_NE(check_saved_step(step).fault, "") << "byte " << byte;
        });
    }
    EXPECT_EQ(error_of_reading(step), "");
}

TEST(SavedStep, RefusesEveryFlippedBitOfTrainingJsonThatChangesAValue) {
    const TrainingState state{
        .step = 1, .model = "mlp", .optimizer = "adam", .learning_rate = 0.1, .seed = ~std::uint64_t{0}};
    const TrainingRecord whole{state, SaveChecksums{{"model-00001-of-00001.safetensors", {7, {{"a", 8}, {"b", 9}}}}}};
    const std::string text = to_json(whole);
    ASSERT_EQ(parse_training_record(text), whole);
    int refused = 0;
    for (std::size_t k = 0; k < 8 * text.size(); ++k) {
        std::string damaged = text;
        damaged[k / 8] = static_cast<char>(damaged[k / 8] ^ (1 << (k % 8)));
        try {
            EXPECT_EQ(parse_training_record(damaged), whole) << damaged;
        } catch (const SaveError&) {
            ++refused;
        }
    }
    EXPECT_GT(refused, 2000);
}

TEST(SavedStep, NamesTheDamagedTensorAndTheNewestWholeSave) {
    const TemporaryFolder folder;
    SaveFolder saves(folder.path());
    saves.save({.step = 1}, tensors("a", 1));
    const fs::path step = saves.save({.step = 2}, tensors("a", 2));
    const fs::path file = step / "model-00001-of-00001.safetensors";
    const std::size_t last = fs::file_size(file) - 1;
    with_flipped_bit(file, last, 7, [&] {
        EXPECT_THAT(error_of_reading(step),
                    AllOf(HasSubstr(file.string() + ": the tensor \"a\" has the checksum "), HasSubstr("saved with"),
                          HasSubstr("the newest save that is whole is " + (folder / "step-000001").string()),
                          HasSubstr("move " + step.string() + " away")));
        const fs::path older = folder / "step-000001/optimizer-00001-of-00001.safetensors";
        with_flipped_bit(older, fs::file_size(older) - 1, 0, [&] {
            EXPECT_THAT(error_of_reading(step), HasSubstr("no other save in " + folder.path().string() + " is whole"));
        });
    });
}

TEST(SavedStep, IsRefusedIfItsIndexLostATensor) {
    const TemporaryFolder folder;
    SaveFolder saves(folder.path());
    saves.save({.step = 1}, tensors("a", 1));
    const fs::path step =
        saves.save({.step = 2}, {{number("a", 1), number("b", 2)}, {number("random_state_0", 3)}, {}});
    const std::string record = read_text(step / "training.json");
    for (const bool has_checksums : {true, false}) {
        write_text(step / "training.json", has_checksums ? record : to_json(TrainingRecord{{.step = 2}, std::nullopt}));
        const auto refused = [&](TensorKind kind, const std::string& tensor, bool on_reading) {
            const fs::path path = step / name_of_index(kind);
            const std::string before = read_text(path);
            auto index = nlohmann::json::parse(before);
            index.at("weight_map").erase(tensor);
            write_text(path, index.dump());
            EXPECT_NE(check_saved_step(step).fault, "") << tensor;
            if (on_reading) {
                EXPECT_THAT(thrown<SaveError>([&] {
                                SavedTensors saved(step, kind);
                                value_of(saved, "a");
                            }),
                            AllOf(HasSubstr(path.string() + " does not name the tensor \"" + tensor + "\""),
                                  HasSubstr(std::string(to_string(kind)) + "-00001-of-00001.safetensors holds"),
                                  HasSubstr("the newest save that is whole is " + (folder / "step-000001").string())));
            }
            write_text(path, before);
        };
        refused(TensorKind::model, "b", true);
        refused(TensorKind::optimizer, "random_state_0", has_checksums);
    }
}

TEST(SavedStep, IsRefusedIfItsIndexCountsOtherBytes) {
    const TemporaryFolder folder;
    const fs::path step = SaveFolder(folder.path()).save({.step = 1}, tensors("a", 1));
    const fs::path path = step / name_of_index(TensorKind::model);
    auto index = nlohmann::json::parse(read_text(path));
    index.at("metadata").at("total_size") = 9;
    write_text(path, index.dump());
    EXPECT_THAT(check_saved_step(step).fault, HasSubstr("total_size"));
}

TEST(SavedStep, ReadsNoFileThroughALink) {
    const TemporaryFolder folder;
    const fs::path step = SaveFolder(folder / "saves").save({.step = 1}, tensors("a", 1));
    for (const char* name : {"model-00001-of-00001.safetensors", "model.safetensors.index.json", "training.json"}) {
        fs::rename(step / name, folder / name);
        fs::create_symlink(folder / name, step / name);
        const auto says = HasSubstr((step / name).string() + " is a link");
        EXPECT_THAT(error_of_reading(step), says);
        EXPECT_THAT(check_saved_step(step).fault, says);
        fs::remove(step / name);
        fs::rename(folder / name, step / name);
    }
    EXPECT_EQ(error_of_reading(step), "");
}

TEST(SavedStep, RefusesTensorsThatChangedPlaces) {
    const TemporaryFolder folder;
    const TensorsToSave two = {{number("a", 1), number("b", 2)}, {}, {}};
    const fs::path step = SaveFolder(folder.path()).save({.step = 1}, two);
    const fs::path file = step / "model-00001-of-00001.safetensors";
    std::string text = read_text(file);
    text[text.find("\"a\"") + 1] = '?';
    text[text.find("\"b\"") + 1] = 'a';
    text[text.find("\"?\"") + 1] = 'b';
    write_text(file, text);
    EXPECT_THAT(error_of_reading(step), AllOf(HasSubstr("its header has the checksum"), HasSubstr("it was changed")));
    // A whole file of another save, with the same names, is not this step's either.
    const fs::path other = SaveFolder(folder / "other").save({.step = 1}, {{number("a", 2), number("b", 1)}, {}, {}});
    fs::copy_file(other / file.filename(), file, fs::copy_options::overwrite_existing);
    EXPECT_THAT(error_of_reading(step), HasSubstr("the tensor \"a\" has the checksum"));
}

TEST(SavedStep, RefusesANegativeCountOfUpdates) {
    const TemporaryFolder folder;
    const fs::path step = SaveFolder(folder.path()).save({.step = 1}, tensors("a", -3));
    write_text(step / "training.json", to_json(TrainingRecord{{.step = 1}, std::nullopt}));
    const auto says = HasSubstr("\"a.step\" is -3");
    EXPECT_THAT(check_saved_step(step).fault, says);
    SavedTensors optimizer(step, TensorKind::optimizer);
    EXPECT_THAT(thrown<SaveError>([&] { value_of(optimizer, "a.step"); }), says);
    SavedTensors model(step, TensorKind::model);
    EXPECT_EQ(value_of(model, "a"), -3) << "a tensor of the model holds any number";
}

TEST(SavedStep, WithoutChecksumsIsReadAndSaysSo) {
    const TemporaryFolder folder;
    const fs::path step = SaveFolder(folder.path()).save({.step = 1}, tensors("a", 7));
    EXPECT_TRUE(check_saved_step(step).has_checksums);
    EXPECT_EQ(names_in(step).size(), 5U) << "the ranks' own checksums are gone";
    write_text(step / "training.json", to_json(TrainingRecord{{.step = 1}, std::nullopt}));
    SavedTensors model(step, TensorKind::model);
    EXPECT_EQ(value_of(model, "a"), 7);
    const SavedStepCheck check = check_saved_step(step);
    EXPECT_EQ(check.fault, "");
    EXPECT_FALSE(check.has_checksums);
    EXPECT_EQ(check.tensors, 2);
    EXPECT_EQ(check.bytes, 16U);
}

TEST(SavedStep, NeedsAChecksumOfEachTensorAndFile) {
    const TemporaryFolder folder;
    const fs::path step = SaveFolder(folder.path()).save({.step = 1}, tensors("a", 7));
    const TrainingRecord whole = load_training_record(step);
    TrainingRecord changed = whole;
    changed.checksums->at("model-00001-of-00001.safetensors").tensors.clear();
    write_text(step / "training.json", to_json(changed));
    EXPECT_THAT(error_of_reading(step), HasSubstr("the tensor \"a\" has no checksum in training.json"));
    changed.checksums->clear();
    write_text(step / "training.json", to_json(changed));
    EXPECT_THAT(error_of_reading(step),
                HasSubstr("model-00001-of-00001.safetensors has no checksums in training.json"));
}

TEST(SavedStep, IsNotMadeOfAStateThatCouldNotBeRead) {
    const TemporaryFolder folder;
    SaveFolder saves(folder.path());
    for (const double rate : {-1.0, 1e31, std::nan("")}) {
        EXPECT_THAT(thrown<SaveError>([&] { saves.save({.step = 1, .learning_rate = rate}, tensors("a", 1)); }),
                    HasSubstr("learning_rate is "));
    }
    EXPECT_THAT(thrown<SaveError>([&] { saves.save({.step = std::int64_t{1} << 31}, tensors("a", 1)); }),
                HasSubstr("2^31 - 1"));
    EXPECT_TRUE(fs::is_empty(folder.path()));
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

TEST(SavedSteps, KnowTheNamesOfTheirParts) {
    const TemporaryFolder folder;
    for (const char* part : {"step-000002/training.json", "step-000002.partial/checksums-00001-of-00002.json",
                             "step-1000000/./model.safetensors.index.json"}) {
        EXPECT_TRUE(is_part_of_save(folder / part)) << part;
        EXPECT_TRUE(is_in_step_of(folder.path(), folder / part)) << part;
        EXPECT_FALSE(is_in_step_of(folder / "other", folder / part)) << part;
    }
    for (const char* other : {"training.json", "step-2/training.json", "saves/training.json"}) {
        EXPECT_FALSE(is_part_of_save(folder / other)) << other;
        EXPECT_FALSE(is_in_step_of(folder.path(), folder / other)) << other;
    }
    EXPECT_FALSE(is_part_of_save(folder / "step-000002/t.sqlite"));
    for (const char* inside : {"step-000002", "step-000002.partial", "step-000002/t.sqlite", "a/../step-000002/t"}) {
        EXPECT_TRUE(is_in_step_of(folder.path(), folder / inside)) << inside;
    }
}
}  // namespace
}  // namespace pipescope
