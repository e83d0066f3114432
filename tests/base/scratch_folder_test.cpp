// Temporary folders: gone with their owner, and those of killed processes with the next owner.

#include "base/scratch_folder.h"

#include "base/error.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <memory>
#include <vector>

namespace pipescope {
namespace {
namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<fs::path> folders_in(const TemporaryFolder& parent) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(parent.path())) {
        found.push_back(entry.path());
    }
    return found;
}

/// Like an hour ago, without waiting.
void make_old(const fs::path& folder) {
    fs::last_write_time(folder, fs::file_time_type::clock::now() - std::chrono::hours(1));
}

/// A process that makes a folder with a file, and is killed.
fs::path left_by_a_killed_process(const TemporaryFolder& parent) {
    const pid_t child = fork();
    if (child == 0) {
        const ScratchFolder folder(parent.path());
        write_text(folder.path() / "file", "left");
        raise(SIGKILL);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    const std::vector<fs::path> found = folders_in(parent);
    EXPECT_EQ(found.size(), 1U);
    return found.front();
}

TEST(ScratchFolder, GoesWithItsOwner) {
    const TemporaryFolder parent;
    {
        const ScratchFolder folder(parent.path());
        write_text(folder.path() / "file", "x");
        EXPECT_THAT(folders_in(parent), ElementsAre(folder.path()));
        EXPECT_EQ(fs::status(folder.path()).permissions(), fs::perms::owner_all);
    }
    EXPECT_TRUE(folders_in(parent).empty());
}

TEST(ScratchFolder, OfAKilledProcessGoesWithTheNextOne) {
    const TemporaryFolder parent;
    const fs::path left = left_by_a_killed_process(parent);
    make_old(left);
    const ScratchFolder next(parent.path());
    EXPECT_THAT(folders_in(parent), ElementsAre(next.path()));
}

TEST(ScratchFolder, OfALivingProcessAndWhatIsNoneStay) {
    const TemporaryFolder parent;
    const ScratchFolder living(parent.path());
    make_old(living.path());
    const std::string prefix = ScratchFolder::kPrefix;
    write_text(parent / (prefix + "file"), "mine");
    fs::create_directory(parent / "mine");
    write_text(parent / "mine/file", "mine");
    fs::create_directory_symlink(parent / "mine", parent / (prefix + "link"));
    fs::create_directory(parent / (prefix + "new"));  // not locked yet
    make_old(parent / "mine");
    { const ScratchFolder next(parent.path()); }
    EXPECT_EQ(folders_in(parent).size(), 5U);
    EXPECT_EQ(read_text(parent / "mine/file"), "mine");
}

TEST(ScratchFolder, NeedsAFolderThatMayBeWritten) {
    const TemporaryFolder parent;
    EXPECT_THAT(thrown<Error>([&] { ScratchFolder folder(parent / "none"); }), HasSubstr("set TMPDIR to a writable"));
}
}  // namespace
}  // namespace pipescope
