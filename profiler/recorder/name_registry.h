#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pipescope {
/// Permanent names that a program passes to NVTX once: domains, texts, categories, threads. They may arrive before a
/// recorder exists and stay valid after it, so they live as long as the process. Cost: a lock and a hash for each name;
/// recorded ranges need neither. Threading: any thread.
class NameRegistry {
public:
    struct Domain {
        std::string name;
        std::int64_t created = 0;  ///< recording_clock_ns()
    };
    struct Category {
        std::uint32_t domain = 0;
        std::uint32_t category = 0;
        std::string name;
        std::int64_t created = 0;
    };
    struct DestroyedDomain {
        std::uint32_t domain = 0;
        std::int64_t destroyed = 0;
    };
    /// A name of a system or CUDA object, such as a stream; never a thread.
    struct Resource {
        std::string kind;  ///< "CUDA stream", "pthread mutex", ..
        std::uint32_t domain = 0;
        std::uint64_t identifier = 0;  ///< address, handle or number
        std::string name;
        std::optional<std::uint32_t> stream;  ///< CUPTI's number, for a CUDA stream only
    };
    struct ThreadName {
        std::uint32_t tid = 0;
        std::string name;
    };

    /// The registry of the process. Global, since NVTX's C functions have no context. Never destroyed, since static
    /// destructors may still emit ranges.
    static NameRegistry& of_process();

    /// Number of the domain with that name, common to all parts of the program. Starts at 1; 0 is NVTX's default
    /// domain.
    std::uint32_t domain(std::string_view name);
    /// Number of a text, or kTooManyTexts if the table is full.
    std::uint32_t text(std::string_view text);
    void name_category(std::uint32_t domain, std::uint32_t category, std::string_view name);
    void name_thread(std::uint32_t tid, std::string_view name);
    void destroy_domain(std::uint32_t domain);
    void name_resource(const Resource& resource);

    /// For the drain thread: the domains, texts (strings), categories, thread names, destroyed domains or resources
    /// after the first `seen` entries. Positions only grow.
    template <class Entry>
    std::vector<Entry> after(std::size_t seen) const {
        const std::scoped_lock lock(mutex_);
        const auto& all = list<Entry>();
        return {all.begin() + static_cast<std::ptrdiff_t>(std::min(seen, all.size())), all.end()};
    }

    static constexpr std::uint32_t kTooManyTexts = 0;
    static constexpr std::size_t kMostTexts = std::size_t{1} << 20;
    static constexpr std::size_t kLongestText = 1000;

private:
    NameRegistry();
    template <class Entry>
    const std::deque<Entry>& list() const {
        return std::get<std::deque<Entry>>(lists_);
    }
    template <class Entry>
    std::deque<Entry>& list() {
        return std::get<std::deque<Entry>>(lists_);
    }

    mutable std::mutex mutex_;
    // Domains by number from 1, texts by number from 0.
    std::tuple<std::deque<Domain>, std::deque<std::string>, std::deque<Category>, std::deque<ThreadName>,
               std::deque<DestroyedDomain>, std::deque<Resource>>
        lists_;
    std::unordered_map<std::string_view, std::uint32_t> text_numbers_;  // views of texts, whose entries do not move

    // The latest names, to ignore repetitions.
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::string> category_names_;
    std::map<std::uint32_t, std::string> names_of_threads_;
    std::map<std::tuple<std::string, std::uint32_t, std::uint64_t>,
             std::pair<std::string, std::optional<std::uint32_t>>>
        resource_names_;
};

/// The part of the text that is stored: whole UTF-8 characters only.
std::string_view cut_text(std::string_view text);
/// Replaces each invalid UTF-8 byte by U+FFFD. Programs may emit anything, and readers of SQLite and JSON reject a
/// whole file for one such byte.
std::string valid_text(std::string_view text);
}  // namespace pipescope
