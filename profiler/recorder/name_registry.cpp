#include "profiler/recorder/name_registry.h"

#include "profiler/recorder/fork_lock.h"
#include "profiler/recorder/recording_clock.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>

namespace pipescope {
namespace {
/// Sets the value of `key`. Returns true if it was new or different.
template <class Key, class Value>
bool is_news(std::map<Key, Value>& values, const Key& key, Value value) {
    const auto [at, is_new] = values.try_emplace(key, value);
    if (!is_new && at->second == value) {
        return false;
    }
    at->second = std::move(value);
    return true;
}
}  // namespace

std::string_view cut_text(std::string_view text) {
    if (text.size() <= NameRegistry::kLongestText) {
        return text;
    }
    std::size_t size = NameRegistry::kLongestText;
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0U) == 0x80U) {
        --size;  // does not cut inside a character
    }
    return text.substr(0, size);
}

std::string valid_text(std::string_view text) {
    using Json = nlohmann::json;
    if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) {
        return std::string(text);
    }
    return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

NameRegistry::NameRegistry() {
    list<std::string>().emplace_back("(omitted: the program uses too many different texts)");
    text_numbers_.emplace(list<std::string>().back(), kTooManyTexts);
    hold_across_forks(mutex_);
}

NameRegistry& NameRegistry::of_process() {
    static NameRegistry& registry = *std::unique_ptr<NameRegistry>(new NameRegistry).release();
    return registry;
}

std::uint32_t NameRegistry::domain(std::string_view name) {
    const std::scoped_lock lock(mutex_);
    auto& domains = list<Domain>();
    const auto found = std::ranges::find_if(domains, [&](const Domain& each) { return each.name == name; });
    if (found != domains.end()) {
        return static_cast<std::uint32_t>(found - domains.begin()) + 1;
    }
    domains.push_back({std::string(name), recording_clock_ns()});
    return static_cast<std::uint32_t>(domains.size());
}

std::uint32_t NameRegistry::text(std::string_view text) {
    const std::scoped_lock lock(mutex_);
    const auto found = text_numbers_.find(text);
    if (found != text_numbers_.end()) {
        return found->second;
    }
    auto& texts = list<std::string>();
    if (texts.size() >= kMostTexts) {
        return kTooManyTexts;
    }
    const auto number = static_cast<std::uint32_t>(texts.size());
    texts.emplace_back(text);
    text_numbers_.emplace(texts.back(), number);
    return number;
}

void NameRegistry::name_category(std::uint32_t domain, std::uint32_t category, std::string_view name) {
    const std::scoped_lock lock(mutex_);
    if (is_news(category_names_, std::pair(domain, category), std::string(name))) {
        list<Category>().push_back({domain, category, std::string(name), recording_clock_ns()});
    }
}

void NameRegistry::name_thread(std::uint32_t tid, std::string_view name) {
    const std::scoped_lock lock(mutex_);
    if (is_news(names_of_threads_, tid, std::string(name))) {
        list<ThreadName>().push_back({tid, std::string(name)});
    }
}

void NameRegistry::destroy_domain(std::uint32_t domain) {
    const std::scoped_lock lock(mutex_);
    list<DestroyedDomain>().push_back({domain, recording_clock_ns()});
}

void NameRegistry::name_resource(const Resource& resource) {
    const std::scoped_lock lock(mutex_);
    if (is_news(resource_names_, std::tuple(resource.kind, resource.domain, resource.identifier),
                std::pair(resource.name, resource.stream))) {
        list<Resource>().push_back(resource);
    }
}
}  // namespace pipescope
