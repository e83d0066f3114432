#include "engine/processes/rendezvous.h"

#include "base/number_text.h"
#include "engine/engine_error.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

namespace pipescope {
namespace {
using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& host, std::uint16_t port, int socket_type) {
    addrinfo hints{};
    hints.ai_socktype = socket_type;
    addrinfo* found = nullptr;
    const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (error != 0) {
        throw ProcessError("the rendezvous names the host '" + host + "', which this host does not know (" +
                           ::gai_strerror(error) +
                           "); all processes meet there; name it by an address, or add it to "
                           "/etc/hosts");
    }
    return {found, &::freeaddrinfo};
}

/// -1 for a family of addresses that this system does not have. Throws ProcessError if no socket can be opened.
int open_socket(int family, int type) {
    const int socket = ::socket(family, type | SOCK_CLOEXEC, 0);
    if (socket < 0 && errno != EAFNOSUPPORT) {
        throw ProcessError(
            std::string("no socket can be opened (") + std::strerror(errno) +
            "); the processes need some to meet; close other programs, or raise the limit of open files");
    }
    return socket;
}
}  // namespace

KeyStore::Address parse_rendezvous(const std::string& text) {
    const std::size_t colon = text.rfind(':');
    KeyStore::Address address;
    if (colon != std::string::npos && colon > 0) {
        const auto port = number_in<std::uint16_t>(std::string_view(text).substr(colon + 1));
        if (port && *port > 0) {
            address.port = *port;
            address.host = text.substr(0, colon);
            if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']') {
                address.host = address.host.substr(1, address.host.size() - 2);  // an IPv6 address
            }
        }
    }
    if (address.host.empty()) {
        throw UsageError("the rendezvous is '" + text +
                         "'; it is the host and port of rank 0; write it as in node1:29500");
    }
    resolve(address.host, address.port, SOCK_STREAM);
    return address;
}

int listen_on(std::uint16_t port) {
    const int socket = open_socket(AF_INET6, SOCK_STREAM);
    const auto fail = [&](const char* remedy) {
        const std::string reason = std::strerror(errno);
        if (socket >= 0) {
            ::close(socket);
        }
        throw ProcessError("rank 0 cannot listen on port " + std::to_string(port) + " (" + reason +
                           "); the processes meet there; " + remedy);
    };
    if (socket < 0) {
        fail("check that this host has a network");
    }
    constexpr int kOn = 1;
    constexpr int kOff = 0;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof(kOn));
    ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &kOff, sizeof(kOff));  // IPv4 too
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    if (::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(socket, SOMAXCONN) != 0) {
        fail("choose another port in the rendezvous");
    }
    return socket;
}

namespace {
/// A client whose own port the kernel chose may get the one that it connects to, and then answers itself.
bool is_connected_to_itself(int socket) {
    sockaddr_storage own{}, peer{};
    socklen_t own_size = sizeof(own), peer_size = sizeof(peer);
    return ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
           ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 && own_size == peer_size &&
           std::memcmp(&own, &peer, own_size) == 0;
}

/// Tries to connect, for as long as the looks at it are apart. Throws ProcessError if no socket can be opened.
bool connects(const addrinfo& address, std::chrono::milliseconds look) {
    const int socket = open_socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK);
    if (socket < 0) {
        return false;
    }
    bool is_there = ::connect(socket, address.ai_addr, address.ai_addrlen) == 0;
    if (!is_there && errno == EINPROGRESS) {
        pollfd events{socket, POLLOUT, 0};
        int error = 0;
        socklen_t size = sizeof(error);
        is_there = ::poll(&events, 1, static_cast<int>(look.count())) == 1 &&
                   ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
    }
    is_there = is_there && !is_connected_to_itself(socket);
    ::close(socket);
    return is_there;
}
}  // namespace

bool is_answered(const KeyStore::Address& rendezvous, std::chrono::steady_clock::time_point until,
                 const std::function<void()>& while_waiting) {
    constexpr std::chrono::milliseconds kLook{250};
    const Addresses there = resolve(rendezvous.host, rendezvous.port, SOCK_STREAM);
    do {
        for (const addrinfo* each = there.get(); each != nullptr; each = each->ai_next) {
            if (connects(*each, kLook)) {
                return true;
            }
        }
        if (while_waiting) {
            while_waiting();
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } while (std::chrono::steady_clock::now() < until);
    return false;
}

std::string address_towards(const KeyStore::Address& rendezvous) {
    const Addresses there = resolve(rendezvous.host, rendezvous.port, SOCK_DGRAM);
    int reason = EAFNOSUPPORT;
    for (const addrinfo* each = there.get(); each != nullptr; each = each->ai_next) {
        const int socket = open_socket(each->ai_family, SOCK_DGRAM);
        sockaddr_storage own{};
        socklen_t size = sizeof(own);
        std::array<char, NI_MAXHOST> name{};
        // Connecting a datagram socket sends nothing; it only chooses the route.
        const bool found = socket >= 0 && ::connect(socket, each->ai_addr, each->ai_addrlen) == 0 &&
                           ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
                           ::getnameinfo(reinterpret_cast<const sockaddr*>(&own), size, name.data(), name.size(),
                                         nullptr, 0, NI_NUMERICHOST) == 0;
        reason = errno;
        if (socket >= 0) {
            ::close(socket);
        }
        if (found) {
            return name.data();
        }
    }
    throw ProcessError("this host has no route to " + rendezvous.host + ", where the processes meet (" +
                       std::strerror(reason) + "); check its network, or name another host in the rendezvous");
}

std::string host_name() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}
}  // namespace pipescope
