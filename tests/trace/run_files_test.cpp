#include "trace/run_files.h"

#include "schedule/error.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"

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
