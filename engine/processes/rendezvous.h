#pragma once

#include "engine/processes/transport.h"

#include <chrono>
#include <functional>
#include <string>

namespace pipescope {
/// "host:port". Throws UsageError for anything else, and ProcessError for a host that nobody knows.
KeyStore::Address parse_rendezvous(const std::string& text);
/// A socket that listens on the port, on all of this host's addresses. Throws ProcessError if the port is in use.
int listen_on(std::uint16_t port);
/// The address of this host that the rendezvous' host sees. Gloo's own choice is the host name's address, which on many
/// hosts is their loopback.
std::string address_towards(const KeyStore::Address& rendezvous);
std::string host_name();
/// True once somebody listens there; false if nobody does until then. `while_waiting` may throw to give up; may be
/// empty.
bool is_answered(const KeyStore::Address& rendezvous, std::chrono::steady_clock::time_point until,
                 const std::function<void()>& while_waiting);
}  // namespace pipescope
