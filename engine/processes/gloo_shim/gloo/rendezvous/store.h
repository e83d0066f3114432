// See gloo/context.h. Never construct what derives from this class: the real one has other virtual functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace gloo::rendezvous {
class Store {
public:
    virtual ~Store() = default;
    virtual void set(const std::string& key, const std::vector<char>& value) = 0;
    virtual std::vector<char> get(const std::string& key) = 0;
    virtual void wait(const std::vector<std::string>& keys) = 0;
    virtual void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) = 0;
    virtual bool has_v2_support() { return false; }
    virtual std::vector<std::vector<char>> multi_get(const std::vector<std::string>& /*keys*/) { return {}; }
    virtual void multi_set(const std::vector<std::string>& /*keys*/, const std::vector<std::vector<char>>& /*values*/) {
    }
    virtual void append(const std::string& /*key*/, const std::vector<char>& /*value*/) {}
    virtual std::int64_t add(const std::string& /*key*/, std::int64_t /*number*/) { return 0; }
};
}  // namespace gloo::rendezvous
