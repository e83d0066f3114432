// Preloaded into a program, lets one call of the system fail, to see what the program then says and leaves behind.
//   FAIL_CALL    the kind of call: read, write, sync, rename, remove, lock, open, map, thread, new or sqlite (memory of
//                SQLite); or of sockets: socket, connect, accept, send, receive or poll
//   FAIL_AT      fails the call of this number, counted from 1
//   FAIL_ALWAYS  if set, also all later ones
//   FAIL_COUNT   at the end, the number of calls of the kind is written into this file
//   FAIL_RANK    only in the process of a launched training with this rank
// Counted are calls from main() on. Of those on files: reads and writes of regular files on a disk, openings for
// writing. Calls of libc itself are not intercepted; those of libstdc++, SQLite, Qt and LibTorch are.

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#define PIPESCOPE_INTERCEPTED extern "C" __attribute__((visibility("default")))

namespace {
template <typename Function>
Function* next(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

std::atomic<bool> is_in_main = false;  // before, only the objects of libraries are made

class Failure {
public:
    Failure() {
        const char* const at = std::getenv("FAIL_AT");
        at_ = at == nullptr ? 0 : std::atoll(at);
        always_ = std::getenv("FAIL_ALWAYS") != nullptr;
        kind_ = std::getenv("FAIL_CALL");
        count_ = std::getenv("FAIL_COUNT");
        const char* const only = std::getenv("FAIL_RANK");
        const char* const rank = std::getenv("PIPESCOPE_RANK");
        if (only != nullptr && (rank == nullptr || std::strcmp(only, rank) != 0)) {
            kind_ = nullptr;
            count_ = nullptr;
        }
    }
    ~Failure() {
        if (count_ == nullptr) {
            return;
        }
        const int file = next<int(const char*, int, ...)>("open")(count_, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        char text[32];
        const int length = std::snprintf(text, sizeof text, "%lld\n", calls_.load());
        [[maybe_unused]] const ssize_t written =
            next<ssize_t(int, const void*, std::size_t)>("write")(file, text, static_cast<std::size_t>(length));
        ::close(file);
    }
    /// Whether this call of the kind `kind` is to fail. Any thread may ask.
    bool hits(const char* kind) {
        if (!is_in_main || kind_ == nullptr || std::strcmp(kind, kind_) != 0) {
            return false;
        }
        const long long number = ++calls_;
        return at_ > 0 && (always_ ? number >= at_ : number == at_);
    }

private:
    const char* kind_ = nullptr;
    const char* count_ = nullptr;
    long long at_ = 0;
    bool always_ = false;
    std::atomic<long long> calls_{0};
};

Failure& failure() {
    static Failure one;
    return one;
}
// Made before main(), so that its end is the last thing to happen.
[[gnu::constructor]] void make_failure() {
    failure();
}

using Main = int(int, char**, char**);
Main* real_main = nullptr;
int counted_main(int count, char** words, char** environment) {
    is_in_main = true;
    const int code = real_main(count, words, environment);
    is_in_main = false;
    return code;
}

bool is_regular(int file) {
    struct stat status {};
    return fstat(file, &status) == 0 && S_ISREG(status.st_mode);
}
bool is_socket(int file) {
    struct stat status {};
    return fstat(file, &status) == 0 && S_ISSOCK(status.st_mode);
}
bool is_on_disk(int file) {
    constexpr auto kProc = 0x9fa0;
    constexpr auto kSys = 0x62656572;
    struct statfs system {};
    return is_regular(file) && fstatfs(file, &system) == 0 && system.f_type != kProc && system.f_type != kSys;
}
bool hits(const char* kind, int error) {
    if (!failure().hits(kind)) {
        return false;
    }
    errno = error;
    return true;
}
bool hits_write(int file) {
    if (file <= STDERR_FILENO) {
        return false;
    }
    return is_regular(file) ? hits("write", ENOSPC) : is_socket(file) && hits("send", ECONNRESET);
}
bool hits_read(int file) {
    if (file <= STDERR_FILENO) {
        return false;
    }
    return is_on_disk(file) ? hits("read", EIO) : is_socket(file) && hits("receive", ECONNRESET);
}
bool hits_open(const char* path, int flags) {
    const bool changes = (flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0;
    return changes && std::strncmp(path, "/dev/", 5) != 0 && std::strncmp(path, "/proc/", 6) != 0 &&
           hits("open", EMFILE);
}

/// The addresses of libsqlite3's code; empty in a program without it.
struct Code {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
};
int find_sqlite(dl_phdr_info* library, std::size_t, void* found) {
    if (library->dlpi_name == nullptr || std::strstr(library->dlpi_name, "libsqlite3") == nullptr) {
        return 0;
    }
    for (int k = 0; k < library->dlpi_phnum; ++k) {
        const ElfW(Phdr)& part = library->dlpi_phdr[k];
        if (part.p_type == PT_LOAD && (part.p_flags & PF_X) != 0) {
            *static_cast<Code*>(found) = {library->dlpi_addr + part.p_vaddr,
                                          library->dlpi_addr + part.p_vaddr + part.p_memsz};
        }
    }
    return 1;
}
bool hits_memory_of_sqlite(const void* caller) {
    if (!is_in_main) {
        return false;
    }
    static const Code sqlite = [] {
        Code found;
        dl_iterate_phdr(find_sqlite, &found);
        return found;
    }();
    const auto at = reinterpret_cast<std::uintptr_t>(caller);
    return at >= sqlite.begin && at < sqlite.end && hits("sqlite", ENOMEM);
}
}  // namespace

extern "C" void* __libc_malloc(std::size_t size);
extern "C" void* __libc_realloc(void* memory, std::size_t size);
PIPESCOPE_INTERCEPTED void* malloc(std::size_t size) noexcept {
    return hits_memory_of_sqlite(__builtin_return_address(0)) ? nullptr : __libc_malloc(size);
}
PIPESCOPE_INTERCEPTED void* realloc(void* memory, std::size_t size) noexcept {
    return hits_memory_of_sqlite(__builtin_return_address(0)) ? nullptr : __libc_realloc(memory, size);
}

PIPESCOPE_INTERCEPTED int __libc_start_main(Main* main, int count, char** words, Main* init, void (*end)(),
                                            void (*loader_end)(), void* stack) {
    real_main = main;
    return next<int(Main*, int, char**, Main*, void (*)(), void (*)(), void*)>("__libc_start_main")(
        counted_main, count, words, init, end, loader_end, stack);
}
PIPESCOPE_INTERCEPTED ssize_t write(int file, const void* bytes, std::size_t count) {
    static const auto real = next<ssize_t(int, const void*, std::size_t)>("write");
    return hits_write(file) ? -1 : real(file, bytes, count);
}
PIPESCOPE_INTERCEPTED ssize_t writev(int file, const iovec* parts, int count) {
    static const auto real = next<ssize_t(int, const iovec*, int)>("writev");
    return hits_write(file) ? -1 : real(file, parts, count);
}
PIPESCOPE_INTERCEPTED ssize_t pwrite(int file, const void* bytes, std::size_t count, off_t at) {
    static const auto real = next<ssize_t(int, const void*, std::size_t, off_t)>("pwrite");
    return hits_write(file) ? -1 : real(file, bytes, count, at);
}
PIPESCOPE_INTERCEPTED ssize_t pwrite64(int file, const void* bytes, std::size_t count, off64_t at) {
    static const auto real = next<ssize_t(int, const void*, std::size_t, off64_t)>("pwrite64");
    return hits_write(file) ? -1 : real(file, bytes, count, at);
}
PIPESCOPE_INTERCEPTED ssize_t read(int file, void* bytes, std::size_t count) {
    static const auto real = next<ssize_t(int, void*, std::size_t)>("read");
    return hits_read(file) ? -1 : real(file, bytes, count);
}
PIPESCOPE_INTERCEPTED ssize_t readv(int file, const iovec* parts, int count) {
    static const auto real = next<ssize_t(int, const iovec*, int)>("readv");
    return hits_read(file) ? -1 : real(file, parts, count);
}
PIPESCOPE_INTERCEPTED ssize_t pread64(int file, void* bytes, std::size_t count, off64_t at) {
    static const auto real = next<ssize_t(int, void*, std::size_t, off64_t)>("pread64");
    return hits_read(file) ? -1 : real(file, bytes, count, at);
}
PIPESCOPE_INTERCEPTED int ftruncate64(int file, off64_t length) noexcept {
    static const auto real = next<int(int, off64_t)>("ftruncate64");
    return hits_write(file) ? -1 : real(file, length);
}
PIPESCOPE_INTERCEPTED int fsync(int file) {
    static const auto real = next<int(int)>("fsync");
    return hits("sync", EIO) ? -1 : real(file);
}
PIPESCOPE_INTERCEPTED int fdatasync(int file) {
    static const auto real = next<int(int)>("fdatasync");
    return hits("sync", EIO) ? -1 : real(file);
}
PIPESCOPE_INTERCEPTED int rename(const char* from, const char* to) noexcept {
    static const auto real = next<int(const char*, const char*)>("rename");
    return hits("rename", EIO) ? -1 : real(from, to);
}
PIPESCOPE_INTERCEPTED int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                                    unsigned flags) noexcept {
    static const auto real = next<int(int, const char*, int, const char*, unsigned)>("renameat2");
    return hits("rename", EIO) ? -1 : real(from_folder, from, to_folder, to, flags);
}
PIPESCOPE_INTERCEPTED int link(const char* from, const char* to) noexcept {
    static const auto real = next<int(const char*, const char*)>("link");
    return hits("rename", EIO) ? -1 : real(from, to);
}
PIPESCOPE_INTERCEPTED int unlink(const char* path) noexcept {
    static const auto real = next<int(const char*)>("unlink");
    return hits("remove", EIO) ? -1 : real(path);
}
PIPESCOPE_INTERCEPTED int remove(const char* path) noexcept {
    static const auto real = next<int(const char*)>("remove");
    return hits("remove", EIO) ? -1 : real(path);
}
/// Its third argument, where there is one, is a number or a pointer, which take one register each.
PIPESCOPE_INTERCEPTED int fcntl64(int file, int what, ...) {
    static const auto real = next<int(int, int, ...)>("fcntl64");
    std::va_list rest;
    va_start(rest, what);
    void* const argument = va_arg(rest, void*);
    va_end(rest);
    const bool locks = what == F_SETLK || what == F_SETLKW || what == F_OFD_SETLK || what == F_OFD_SETLKW;
    return locks && static_cast<const struct flock*>(argument)->l_type != F_UNLCK && hits("lock", ENOLCK)
               ? -1
               : real(file, what, argument);
}
PIPESCOPE_INTERCEPTED int open(const char* path, int flags, ...) {
    static const auto real = next<int(const char*, int, ...)>("open");
    std::va_list rest;
    va_start(rest, flags);
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return hits_open(path, flags) ? -1 : real(path, flags, mode);
}
PIPESCOPE_INTERCEPTED int open64(const char* path, int flags, ...) {
    static const auto real = next<int(const char*, int, ...)>("open64");
    std::va_list rest;
    va_start(rest, flags);
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return hits_open(path, flags) ? -1 : real(path, flags, mode);
}
PIPESCOPE_INTERCEPTED int mkstemp64(char* path) {
    static const auto real = next<int(char*)>("mkstemp64");
    return hits("open", EMFILE) ? -1 : real(path);
}
PIPESCOPE_INTERCEPTED std::FILE* fopen(const char* path, const char* mode) {
    static const auto real = next<std::FILE*(const char*, const char*)>("fopen");
    return std::strpbrk(mode, "wa+") != nullptr && hits_open(path, O_WRONLY) ? nullptr : real(path, mode);
}
PIPESCOPE_INTERCEPTED std::FILE* fopen64(const char* path, const char* mode) {
    static const auto real = next<std::FILE*(const char*, const char*)>("fopen64");
    return std::strpbrk(mode, "wa+") != nullptr && hits_open(path, O_WRONLY) ? nullptr : real(path, mode);
}
PIPESCOPE_INTERCEPTED void* mmap64(void* at, std::size_t length, int protection, int flags, int file,
                                   off64_t offset) noexcept {
    static const auto real = next<void*(void*, std::size_t, int, int, int, off64_t)>("mmap64");
    return file >= 0 && hits("map", ENOMEM) ? MAP_FAILED : real(at, length, protection, flags, file, offset);
}
PIPESCOPE_INTERCEPTED void* mmap(void* at, std::size_t length, int protection, int flags, int file,
                                 off_t offset) noexcept {
    static const auto real = next<void*(void*, std::size_t, int, int, int, off_t)>("mmap");
    return file >= 0 && hits("map", ENOMEM) ? MAP_FAILED : real(at, length, protection, flags, file, offset);
}
PIPESCOPE_INTERCEPTED int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*),
                                         void* argument) noexcept {
    static const auto real = next<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
    return failure().hits("thread") ? EAGAIN : real(thread, attributes, function, argument);
}

PIPESCOPE_INTERCEPTED int socket(int family, int type, int protocol) noexcept {
    static const auto real = next<int(int, int, int)>("socket");
    return hits("socket", EMFILE) ? -1 : real(family, type, protocol);
}
PIPESCOPE_INTERCEPTED int connect(int file, const sockaddr* address, socklen_t length) {
    static const auto real = next<int(int, const sockaddr*, socklen_t)>("connect");
    return hits("connect", ECONNREFUSED) ? -1 : real(file, address, length);
}
PIPESCOPE_INTERCEPTED int accept(int file, sockaddr* address, socklen_t* length) {
    static const auto real = next<int(int, sockaddr*, socklen_t*)>("accept");
    return hits("accept", ECONNABORTED) ? -1 : real(file, address, length);
}
PIPESCOPE_INTERCEPTED int accept4(int file, sockaddr* address, socklen_t* length, int flags) {
    static const auto real = next<int(int, sockaddr*, socklen_t*, int)>("accept4");
    return hits("accept", ECONNABORTED) ? -1 : real(file, address, length, flags);
}
PIPESCOPE_INTERCEPTED ssize_t send(int file, const void* bytes, std::size_t count, int flags) {
    static const auto real = next<ssize_t(int, const void*, std::size_t, int)>("send");
    return hits("send", ECONNRESET) ? -1 : real(file, bytes, count, flags);
}
PIPESCOPE_INTERCEPTED ssize_t sendmsg(int file, const msghdr* message, int flags) {
    static const auto real = next<ssize_t(int, const msghdr*, int)>("sendmsg");
    return hits("send", ECONNRESET) ? -1 : real(file, message, flags);
}
PIPESCOPE_INTERCEPTED ssize_t recv(int file, void* bytes, std::size_t count, int flags) {
    static const auto real = next<ssize_t(int, void*, std::size_t, int)>("recv");
    return hits("receive", ECONNRESET) ? -1 : real(file, bytes, count, flags);
}
PIPESCOPE_INTERCEPTED ssize_t recvmsg(int file, msghdr* message, int flags) {
    static const auto real = next<ssize_t(int, msghdr*, int)>("recvmsg");
    return hits("receive", ECONNRESET) ? -1 : real(file, message, flags);
}
PIPESCOPE_INTERCEPTED int poll(pollfd* files, nfds_t count, int timeout) {
    static const auto real = next<int(pollfd*, nfds_t, int)>("poll");
    return hits("poll", ENOMEM) ? -1 : real(files, count, timeout);
}
PIPESCOPE_INTERCEPTED int epoll_ctl(int file, int what, int watched, epoll_event* event) noexcept {
    static const auto real = next<int(int, int, int, epoll_event*)>("epoll_ctl");
    return what == EPOLL_CTL_ADD && hits("poll", ENOMEM) ? -1 : real(file, what, watched, event);
}

// The other forms of operator new call these two.
__attribute__((visibility("default"))) void* operator new(std::size_t size) {
    if (failure().hits("new")) {
        throw std::bad_alloc();
    }
    void* const memory = std::malloc(size == 0 ? 1 : size);
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    return memory;
}
__attribute__((visibility("default"))) void operator delete(void* memory) noexcept {
    std::free(memory);
}
__attribute__((visibility("default"))) void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
