#include "profiler/layers/operator_chains.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace pipescope {
namespace {
constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
/// Values, and the bytes that are read of them.
using Reads = std::map<std::size_t, double>;

class Chains {
public:
    explicit Chains(const OperatorRecord& record)
        : record_(record), writer_(record.values.size(), kNone), written_(record.values.size()) {
        chain_.resize(record.operators.size());
        std::iota(chain_.begin(), chain_.end(), std::size_t{0});
        join_operators();
        find_reads();
        decide();
    }

    std::vector<Operators> costs(std::size_t parts) {
        std::map<std::size_t, DeviceWork> by_chain;
        for (std::size_t op = 0; op < record_.operators.size(); ++op) {
            const OperatorRecord::Operator& each = record_.operators[op];
            if (each.flops > 0) {
                continue;
            }
            DeviceWork& work = by_chain[root(op)];
            if (!each.fuses) {
                work.bytes_moved = each.bytes;
                continue;
            }
            for (const OperatorRecord::Write& write : each.writes) {
                work.bytes_moved += is_written(write.value) ? write.bytes : 0;
            }
            if (each.logits > 0) {
                const auto* others = std::get_if<CrossEntropyShape>(&work.shape);
                work.shape = CrossEntropyShape{each.logits + (others != nullptr ? others->logits : 0)};
            }
        }
        std::vector<Operators> costs(parts);
        for (auto& [chain, work] : by_chain) {
            for (const auto& [value, bytes] : reads_[chain]) {
                work.bytes_moved += bytes;
            }
            if (work.bytes_moved > 0) {
                costs[record_.operators[chain].part].push_back(work);
            }
        }
        for (Operators& part : costs) {
            part = merged(part);
        }
        return costs;
    }

private:
    /// The first operator of the chain.
    std::size_t root(std::size_t op) {
        while (chain_[op] != op) {
            op = chain_[op] = chain_[chain_[op]];
        }
        return op;
    }

    /// Joins operators that pass values, if equally many that do not fuse come before them.
    void join_operators() {
        std::vector<std::size_t> depth(record_.operators.size(), 0);
        for (std::size_t op = 0; op < record_.operators.size(); ++op) {
            const OperatorRecord::Operator& here = record_.operators[op];
            const auto before = [&](const OperatorRecord::Read& read) {
                const std::size_t writer = writer_[read.value];
                return writer != kNone && record_.operators[writer].part == here.part ? writer : kNone;
            };
            for (const OperatorRecord::Read& read : here.reads) {
                if (const std::size_t writer = before(read); writer != kNone) {
                    depth[op] = std::max(depth[op], depth[writer] + (record_.operators[writer].fuses ? 0 : 1));
                }
            }
            for (const OperatorRecord::Read& read : here.reads) {
                const std::size_t writer = before(read);
                if (writer != kNone && here.fuses && record_.operators[writer].fuses && depth[writer] == depth[op]) {
                    const std::size_t one = root(writer);
                    const std::size_t other = root(op);
                    chain_[std::max(one, other)] = std::min(one, other);
                }
            }
            for (const OperatorRecord::Write& write : here.writes) {
                writer_[write.value] = op;
            }
        }
    }

    /// True if the value exists outside its chain in any case.
    bool exists(std::size_t value) const {
        return writer_[value] == kNone || !record_.operators[writer_[value]].fuses || written_[value];
    }
    bool is_written(std::size_t value) const { return written_[value]; }

    void add_read(Reads& reads, std::size_t value, double bytes) const {
        double& sum = reads[value];
        sum = std::min(record_.values[value].bytes, sum + bytes);
    }

    /// What each chain reads of values that exist, and which chains need others.
    void find_reads() {
        for (std::size_t value = 0; value < record_.values.size(); ++value) {
            written_[value] = record_.values[value].is_result;
        }
        for (const OperatorRecord::Operator& each : record_.operators) {
            for (const OperatorRecord::Read& read : each.reads) {
                written_[read.value] = written_[read.value] || !each.fuses;
            }
        }
        for (std::size_t op = 0; op < record_.operators.size(); ++op) {
            if (!record_.operators[op].fuses) {
                continue;
            }
            for (const OperatorRecord::Read& read : record_.operators[op].reads) {
                const std::size_t writer = writer_[read.value];
                if (writer != kNone && root(writer) == root(op)) {
                    continue;
                }
                if (exists(read.value)) {
                    add_read(reads_[root(op)], read.value, read.bytes);
                } else {
                    needed_[read.value].insert(root(op));
                }
            }
        }
    }

    /// What the value is computed from: itself if it exists.
    const Reads& sources(std::size_t value) {
        if (const auto found = sources_.find(value); found != sources_.end()) {
            return found->second;
        }
        Reads found;
        if (!exists(value)) {
            for (const OperatorRecord::Read& read : record_.operators[writer_[value]].reads) {
                if (exists(read.value)) {
                    add_read(found, read.value, read.bytes);
                } else {
                    for (const auto& [source, bytes] : sources(read.value)) {
                        add_read(found, source, bytes);
                    }
                }
            }
        } else {
            found[value] = record_.values[value].bytes;
        }
        return sources_[value] = std::move(found);
    }

    /// Decides for each value that other chains need, in the order in which they are written, whether it is written.
    void decide() {
        for (const auto& [value, chains] : needed_) {
            const double bytes = record_.values[value].bytes;
            const Reads again = sources(value);
            double computed = 0;
            for (const std::size_t chain : chains) {
                for (const auto& [source, read] : again) {
                    computed += reads_[chain].contains(source) ? 0 : read;
                }
            }
            const bool writes = bytes * static_cast<double>(1 + chains.size()) < computed;
            if (writes) {
                written_[value] = true;
                sources_[value] = {{value, bytes}};
            }
            for (const std::size_t chain : chains) {
                if (writes) {
                    add_read(reads_[chain], value, bytes);
                } else {
                    for (const auto& [source, read] : again) {
                        add_read(reads_[chain], source, read);
                    }
                }
            }
        }
    }

    const OperatorRecord& record_;
    std::vector<std::size_t> writer_;                      // by value
    std::vector<bool> written_;                            // by value: to the device's memory
    std::vector<std::size_t> chain_;                       // by operator: an earlier one of its chain, or itself
    std::map<std::size_t, Reads> reads_;                   // by chain
    std::map<std::size_t, std::set<std::size_t>> needed_;  // values that may not exist, by the chains that need them
    std::map<std::size_t, Reads> sources_;                 // reads of an operator are older than its writes
};
}  // namespace

std::vector<Operators> fused_chains(const OperatorRecord& record, std::size_t parts) {
    return Chains(record).costs(parts);
}

Operators merged(const Operators& operators) {
    Operators found;
    for (const DeviceWork& each : operators) {
        const auto same = std::find_if(found.begin(), found.end(), [&](const DeviceWork& other) {
            return other.flops * each.kernels == each.flops * other.kernels &&
                   other.bytes_moved * each.kernels == each.bytes_moved * other.kernels && other.shape == each.shape;
        });
        if (same == found.end()) {
            found.push_back(each);
        } else {
            same->flops += each.flops;
            same->bytes_moved += each.bytes_moved;
            same->kernels += each.kernels;
        }
    }
    return found;
}
}  // namespace pipescope
