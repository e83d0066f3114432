#include "trace/merge/run_files.h"

#include "base/error.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"
#include "tests/trace/rank_files.h"

#include <dirent.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

thread_local int entries_to_read = -1;  // by this thread, before its disk fails; -1: it does not fail

class RunFiles : public testing::Test {
protected:
    RunFiles() {
        for (const char* name : {"a.json", "b.json.gz", "c.sqlite", "d.txt", "a.notes.json"}) {
            write_text(folder_ / name, "");
        }
    }
    ~RunFiles() override { entries_to_read = -1; }

    const TemporaryFolder folder_;
};

TEST_F(RunFiles, OfAFolderAreItsTracesByName) {
    EXPECT_THAT(with_files_of_folders({folder_ / "d.txt", folder_.path()}),
                ElementsAre(folder_ / "d.txt", folder_ / "a.json", folder_ / "b.json.gz", folder_ / "c.sqlite"));
}

// A disk or a network that fails while the folder is read, not when it is opened.
TEST_F(RunFiles, OfAFolderThatCannotBeReadToItsEndAreRefused) {
    for (const int read : {0, 1, 3}) {
        entries_to_read = read;
        const std::string message = thrown<TraceError>([&] { with_files_of_folders({folder_.path()}); });
        EXPECT_THAT(message, AllOf(HasSubstr("cannot list the files of " + folder_.path().string()),
                                   HasSubstr("Input/output error"), HasSubstr("check its permissions")))
            << read;
    }
}

TEST_F(RunFiles, OfAPatternAreNotTheViewersNotes) {
    const auto notes = folder_ / "t: rank0 + 3 more.json.notes.json";
    write_text(notes, R"({"format": "pipescope.notes", "version": 1, "notes": []})");
    EXPECT_THAT(with_files_of_folders({notes, folder_ / "a.json"}), ElementsAre(folder_ / "a.json"));
    EXPECT_THAT(with_files_of_folders({notes}), ElementsAre(notes)) << "so that somebody says what it is";
    const auto trace = folder_ / "of.notes.json";
    write_text(trace, R"({"traceEvents": []})");
    EXPECT_THAT(with_files_of_folders({trace, folder_ / "a.json"}), ElementsAre(trace, folder_ / "a.json"));
}

TEST_F(RunFiles, OfRanksAreOneRunBesideOtherFiles) {
    std::vector<std::filesystem::path> ranks;
    for (const char* folder : {"one", "two"}) {
        std::filesystem::create_directory(folder_ / folder);
        for (int rank = 0; rank < 2; ++rank) {
            ranks.push_back(folder_ / folder / ("rank" + std::to_string(rank) + ".json"));
            RankFile(rank, 2).range("Forward 0", 10, 35).write(ranks.back());
        }
    }
    const std::vector one{ranks[0], ranks[1]};
    const auto other = folder_ / "d.txt";
    write_text(other, "no trace");
    EXPECT_THAT(grouped_by_run({ranks[0], ranks[1], other}), ElementsAre(one, std::vector{other}));
    EXPECT_THAT(grouped_by_run({other, ranks[0], ranks[1]}), ElementsAre(std::vector{other}, one));
    EXPECT_THAT(grouped_by_run(ranks), ElementsAre(one, std::vector{ranks[2], ranks[3]}));
}

TEST_F(RunFiles, OfDifferentRanksHaveDifferentPlaces) {
    const auto place = [&](std::vector<int> ranks) {
        std::vector<std::filesystem::path> files;
        for (const int rank : ranks) {
            files.push_back(folder_ / ("rank" + std::to_string(rank) + ".json"));
        }
        return joined_path(files);
    };
    const std::string folder = folder_.path().filename().string();
    EXPECT_EQ(place({0, 1, 2, 3}).filename(), folder + ": rank0 + 3 more.json") << "where notes have been until now";
    EXPECT_EQ(place({9, 10, 11, 12}).filename(), folder + ": rank9 + 3 more.json");
    EXPECT_NE(place({0, 4, 5, 6}), place({0, 1, 2, 3}));
    EXPECT_NE(place({0, 4, 5, 6}), place({0, 4, 5, 7}));
    EXPECT_EQ(place({0, 4, 5, 6}), place({0, 4, 5, 6}));
    EXPECT_EQ(place({0, 4, 5, 6}).extension(), ".json");
    EXPECT_EQ(place({0, 4}).filename(), folder + ": rank0 + rank4.json");
}
}  // namespace
}  // namespace pipescope

// Takes the place of the C library's for all of this program.
extern "C" __attribute__((visibility("default"))) dirent* readdir(DIR* folder) {
    static const auto real = reinterpret_cast<decltype(&readdir)>(dlsym(RTLD_NEXT, "readdir"));
    if (pipescope::entries_to_read == 0) {
        errno = EIO;
        return nullptr;
    }
    pipescope::entries_to_read -= pipescope::entries_to_read > 0 ? 1 : 0;
    return real(folder);
}
