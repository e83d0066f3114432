#include "trace/shared_disk.h"

#include "trace/sqlite_guard.h"
#include "trace/trace_file.h"
#include "trace/trace_parts.h"
#include "trace/trace_writer.h"

#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

/// Source: linux/magic.h, and the file systems' own headers.
constexpr std::array<std::uint32_t, 15> kShared = {0x6969,       // NFS
                                                   0x517B,       // SMB
                                                   0xFE534D42,   // SMB 2
                                                   0xFF534D42,   // CIFS
                                                   0x0BD00BD0,   // Lustre
                                                   0x47504653,   // GPFS
                                                   0x00C36400,   // CephFS
                                                   0x19830326,   // BeeGFS
                                                   0x65735546,   // FUSE, such as sshfs
                                                   0x5346414F,   // AFS
                                                   0x01021997,   // 9p
                                                   0x20030528,   // OrangeFS
                                                   0x7461636F,   // OCFS2
                                                   0x01161970,   // GFS2
                                                   0x18031977};  // WekaFS

using LogHeader = std::array<char, 32>;  // https://sqlite.org/fileformat.html#the_write_ahead_log

/// All zero without a log. A log that begins anew has other numbers.
LogHeader header_of(const fs::path& log) {
    LogHeader header{};
    if (std::error_code ignored; !fs::is_regular_file(log, ignored)) {
        return header;  // opening a pipe would wait for its writer
    }
    std::ifstream(log, std::ios::binary).read(header.data(), header.size());
    return header;
}

/// False if the log began anew meanwhile: then the copies may not belong together.
bool copy_once(const fs::path& trace, const fs::path& to) {
    const fs::path log = beside(trace, "-wal");
    const LogHeader before = header_of(log);
    fs::copy_file(trace, to, fs::copy_options::overwrite_existing);
    // After the database: whatever the writer moved into that since is in the log still.
    std::error_code gone;
    fs::copy_file(log, beside(to, "-wal"), fs::copy_options::overwrite_existing, gone);
    if (gone) {
        fs::remove(beside(to, "-wal"), gone);
    }
    return before == header_of(log) && before == header_of(beside(to, "-wal"));
}
}  // namespace

bool is_on_shared_disk(const fs::path& file) {
    std::error_code ignored;
    const std::string whole = fs::absolute(file, ignored).lexically_normal().string();
    const char* const named = std::getenv("PIPESCOPE_SHARED_DISKS");
    std::istringstream folders(named != nullptr ? named : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
        folder += folder.empty() || folder.ends_with('/') ? "" : "/";
        if (!folder.empty() && whole.starts_with(folder)) {
            return true;
        }
    }
    struct statfs disk {};
    return statfs(file.c_str(), &disk) == 0 &&
           std::ranges::find(kShared, static_cast<std::uint32_t>(disk.f_type)) != kShared.end();
}

bool grows_on_shared_disk(const fs::path& trace) {
    std::error_code ignored;
    return fs::exists(beside(trace, "-wal"), ignored) && is_on_shared_disk(trace);
}

void copy_growing_trace(const fs::path& trace, const fs::path& to) {
    constexpr int kTries = 50;
    constexpr std::chrono::milliseconds kPause{20};
    try {
        bool copied = copy_once(trace, to);
        for (int again = 1; again < kTries && !copied; ++again) {
            std::this_thread::sleep_for(kPause);
            copied = copy_once(trace, to);
        }
        if (!copied) {
            throw TraceError("trace " + quoted(trace) +
                             " changes faster than it can be copied from its disk; it is copied to be read while "
                             "another host writes it; wait until the recording ends");
        }
    } catch (const fs::filesystem_error& error) {
        throw TraceError("cannot copy trace " + quoted(trace) + ": " + error.code().message() +
                         "; it is copied to be read while another host writes it; check its permissions, and the free "
                         "space of the temporary folder");
    }
    guard_sqlite("read", trace, [&] {
        ForeignDatabase db(to, SQLite::OPEN_READWRITE);
        make_plain_file(db);
    });
}

OpenablePath::OpenablePath(const fs::path& trace) : trace_(trace) {
    if (!grows_on_shared_disk(trace)) {
        return;
    }
    std::string pattern = (fs::temp_directory_path() / "pipescope-copy-XXXXXX").string();
    const int file = mkstemp(pattern.data());
    if (file < 0) {
        throw TraceError("no temporary file can be made in " + quoted(fs::temp_directory_path()) +
                         "; a trace that another host writes is copied there; set TMPDIR to a writable folder");
    }
    ::close(file);
    copy_ = pattern;
    try {
        copy_growing_trace(trace, copy_);
    } catch (...) {
        fs::remove(copy_);
        throw;
    }
}

OpenablePath::~OpenablePath() {
    std::error_code ignored;
    if (!copy_.empty()) {
        fs::remove(copy_, ignored);
        fs::remove(beside(copy_, "-wal"), ignored);
    }
}
}  // namespace pipescope
