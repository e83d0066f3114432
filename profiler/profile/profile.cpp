#include "profiler/profile/profile.h"

#include "base/printable.h"
#include "base/quantities.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace pipescope {
namespace {
// Whole numbers up to this are exact in a double: 104 days in ns. A larger value is a mistake.
constexpr double kLargest = 9007199254740992.0;
constexpr std::int64_t kMostSamples = 1'000'000'000;

struct NamedDtype {
    std::string_view name;
    std::int64_t bytes;
};
constexpr std::array kDtypes{NamedDtype{"float64", 8}, NamedDtype{"float32", 4}, NamedDtype{"tf32", 4},
                             NamedDtype{"float16", 2}, NamedDtype{"bfloat16", 2}};

std::string text_of(double value) {
    if (std::isfinite(value) && value == std::floor(value) && std::abs(value) < kLargest) {
        return std::to_string(static_cast<std::int64_t>(value));
    }
    return shortest(value);
}

void require_number(double value, const std::string& path) {
    if (!(std::isfinite(value) && value >= 0)) {  // not value < 0, because NaN compares false
        throw ProfileError(path + " is " + text_of(value) +
                           "; times and sizes are finite and not negative; correct it, or profile again");
    }
    if (value > kLargest) {
        throw ProfileError(path + " is " + text_of(value) +
                           "; times are ns and sizes bytes, at most 2^53; correct its unit, or profile again");
    }
}

/// Far above any device's memory, and so small that sums over layers and micro-batches fit 64 bits.
void require_bytes(double value, const std::string& path) {
    require_number(value, path);
    if (value > static_cast<double>(kMostProfileBytes)) {
        throw ProfileError(path + " is " + text_of(value) +
                           "; sizes are bytes, at most 2^50 (1 PiB); correct its unit, or profile again");
    }
}

using Require = void (*)(double value, const std::string& path);

void require_per_size(const PerSize& values, std::size_t samples, bool required, const std::string& path,
                      Require require = require_number) {
    if (values.empty() && !required) {
        return;
    }
    if (values.size() != samples) {
        throw ProfileError(path + " holds " + counted(values.size(), "number", "numbers") +
                           "; it needs one for each entry of samples, which has " + std::to_string(samples) +
                           "; add or remove some");
    }
    for (std::size_t k = 0; k < values.size(); ++k) {
        require(values[k], path + "[" + std::to_string(k) + "]");
    }
}

void check_samples(const std::vector<std::int64_t>& samples) {
    if (samples.empty()) {
        throw ProfileError("samples is empty; a profile measures at least one micro-batch size; give one, such as [1]");
    }
    for (std::size_t k = 0; k < samples.size(); ++k) {
        const std::string path = "samples[" + std::to_string(k) + "]";
        if (samples[k] < 1 || samples[k] > kMostSamples) {
            throw ProfileError(path + " is " + std::to_string(samples[k]) + "; micro-batch sizes are from 1 to " +
                               std::to_string(kMostSamples) + "; correct it");
        }
        if (k > 0 && samples[k] <= samples[k - 1]) {
            throw ProfileError(path + " is " + std::to_string(samples[k]) + " after " + std::to_string(samples[k - 1]) +
                               "; samples ascend without repeats; sort them, and every array along with them");
        }
    }
}

std::string stash_path(const std::string& layer, const std::string& skip) {
    std::string path = layer;
    return path.append(".stash.").append(printable(skip));
}

void check_operators(const std::vector<Operators>& by_size, std::size_t samples, const std::string& path) {
    if (!by_size.empty() && by_size.size() != samples) {
        throw ProfileError(path + " holds the operators of " + counted(by_size.size(), "size", "sizes") +
                           "; it needs those of each entry of samples, which has " + std::to_string(samples) +
                           "; add or remove some");
    }
    for (std::size_t k = 0; k < by_size.size(); ++k) {
        for (std::size_t each = 0; each < by_size[k].size(); ++each) {
            const std::string here = path + "[" + std::to_string(k) + "][" + std::to_string(each) + "]";
            require_number(by_size[k][each].kernels, here + "[0]");
            if (by_size[k][each].kernels != std::floor(by_size[k][each].kernels)) {
                throw ProfileError(here + "[0] is " + text_of(by_size[k][each].kernels) +
                                   "; it counts kernels, which is a whole number; correct it, or profile again");
            }
            require_number(by_size[k][each].flops, here + "[1]");
            require_number(by_size[k][each].bytes_moved, here + "[2]");
        }
    }
}

constexpr std::array<std::string_view, 4> kPasses{"forward", "recompute", "backward", "backward_weight"};

void check_layer(const LayerProfile& layer, std::size_t samples, const std::string& path) {
    const auto check = [&](const PerSize& values, bool required, const char* field) {
        require_per_size(values, samples, required, path + "." + field,
                         std::string_view(field).ends_with("_bytes") ? require_bytes : require_number);
    };
    check(layer.forward_ns, true, "forward_ns");
    check(layer.backward_ns, true, "backward_ns");
    check(layer.output_bytes, true, "output_bytes");
    check(layer.recompute_ns, false, "recompute_ns");
    check(layer.graph_forward_ns, false, "graph_forward_ns");
    check(layer.backward_weight_ns, false, "backward_weight_ns");
    check(layer.saved_bytes, false, "saved_bytes");
    check(layer.transient_bytes, false, "transient_bytes");
    check(layer.flops, false, "flops");
    check_operators(layer.forward_operators, samples, path + ".forward_operators");
    check_operators(layer.backward_operators, samples, path + ".backward_operators");
    check_operators(layer.forward_chains, samples, path + ".forward_chains");
    check_operators(layer.backward_chains, samples, path + ".backward_chains");
    require_bytes(static_cast<double>(layer.parameter_bytes), path + ".parameter_bytes");
    require_bytes(static_cast<double>(layer.gradient_bytes), path + ".gradient_bytes");
    require_bytes(static_cast<double>(layer.expert_gradient_bytes), path + ".expert_gradient_bytes");
    if (layer.expert_gradient_bytes > layer.gradient_bytes) {
        throw ProfileError(path + ".expert_gradient_bytes is " + std::to_string(layer.expert_gradient_bytes) +
                           " of gradient_bytes " + std::to_string(layer.gradient_bytes) +
                           "; it is a part of them; correct it");
    }
    require_bytes(static_cast<double>(layer.buffer_bytes), path + ".buffer_bytes");
    require_bytes(static_cast<double>(layer.statistic_bytes), path + ".statistic_bytes");
    require_number(layer.forward_cv, path + ".forward_cv");
    require_number(layer.backward_cv, path + ".backward_cv");
    for (const auto& [pass, times] : layer.launches) {
        const std::string here = path + ".launches." + printable(pass);
        if (std::ranges::find(kPasses, pass) == kPasses.end()) {
            throw ProfileError(here + " is no pass; passes are forward, recompute, backward, backward_weight");
        }
        require_number(times.host_ns, here + ".host_ns");
        require_number(times.paced_ns, here + ".paced_ns");
        require_number(times.sends_ns, here + ".sends_ns");
        require_number(times.receives_ns, here + ".receives_ns");
    }
    for (const auto& [skip, bytes] : layer.stash) {
        require_per_size(bytes, samples, true, stash_path(path, skip), require_bytes);
    }
    if (!layer.tape.empty() && layer.tape.size() != samples) {
        throw ProfileError(path + ".tape holds " + counted(layer.tape.size(), "tape", "tapes") +
                           "; it needs one, or null, for each entry of samples, which has " + std::to_string(samples) +
                           "; add or remove some");
    }
    for (std::size_t k = 0; k < layer.tape.size(); ++k) {
        if (!layer.tape[k].empty()) {
            check_tape(layer.tape[k], path + ".tape[" + std::to_string(k) + "]");
        }
    }
}

void check_co_running(const Profile& profile) {
    if (profile.co_running_lanes < 1) {
        throw ProfileError("co_running_lanes is " + std::to_string(profile.co_running_lanes) +
                           "; at least the measured lane runs; use 1");
    }
    if (profile.host_cores < 0) {
        throw ProfileError("host_cores is " + std::to_string(profile.host_cores) +
                           "; it counts cores; use 0 where it is unknown");
    }
    if (profile.tokens_per_sample < 0) {
        throw ProfileError("tokens_per_sample is " + std::to_string(profile.tokens_per_sample) +
                           "; it counts the tokens of a sample; use 0 where they are unknown");
    }
    const PerLane& slowdown = profile.co_running_slowdown;
    for (std::size_t k = 0; k < slowdown.size(); ++k) {
        const std::string entry = "co_running_slowdown[" + std::to_string(k) + "] is " + text_of(slowdown[k]);
        if (!(slowdown[k] >= 1 && slowdown[k] <= 1e6)) {
            throw ProfileError(entry + "; it is the time with " + counted(k + 1, "lane", "lanes") +
                               " busy over the time with one, from 1 to 1e6; correct it, or profile again");
        }
        if (k == 0 && slowdown[k] != 1) {
            throw ProfileError(entry + "; it is the time with one lane busy over itself; write 1, or profile again");
        }
    }
}

void check_batch_loss(const BatchLoss& loss) {
    if (loss.samples.size() != loss.ns.size()) {
        throw ProfileError("loss_batch.ns has " + counted(loss.ns.size(), "entry", "entries") +
                           "; one is needed for each entry of loss_batch.samples, which has " +
                           std::to_string(loss.samples.size()) + "; add or remove some");
    }
    std::int64_t before = 0;
    for (std::size_t k = 0; k < loss.samples.size(); ++k) {
        const std::string entry = "[" + std::to_string(k) + "]";
        if (loss.samples[k] <= before) {
            throw ProfileError("loss_batch.samples" + entry + " is " + std::to_string(loss.samples[k]) +
                               "; sizes ascend from 1 up, each once; sort them");
        }
        before = loss.samples[k];
        require_number(loss.ns[k], "loss_batch.ns" + entry);
    }
    for (const auto& [name, bytes] :
         {std::pair("loss_batch.transient_bytes", &loss.transient_bytes),
          std::pair("loss_batch.all_gradients_transient_bytes", &loss.all_gradients_transient_bytes)}) {
        if (!bytes->empty() && bytes->size() != loss.samples.size()) {
            throw ProfileError(std::string(name) + " has " + counted(bytes->size(), "entry", "entries") +
                               "; one is needed for each entry of loss_batch.samples, which has " +
                               std::to_string(loss.samples.size()) + "; add or remove some");
        }
        for (std::size_t k = 0; k < bytes->size(); ++k) {
            require_bytes((*bytes)[k], name + ("[" + std::to_string(k) + "]"));
        }
    }
}

/// A skip that is never popped would go nowhere; one popped before its stash would never arrive.
void check_skips(const std::vector<LayerProfile>& layers) {
    std::map<std::string, std::string> waiting;  // stashed and never popped yet, with the path of its stash
    std::map<std::string, std::string> stashed;
    for (std::size_t l = 0; l < layers.size(); ++l) {
        const std::string path = "layers[" + std::to_string(l) + "]";
        std::set<std::string> own;
        for (std::size_t k = 0; k < layers[l].pop.size(); ++k) {
            const std::string& skip = layers[l].pop[k];
            waiting.erase(skip);
            if (!stashed.contains(skip) || !own.insert(skip).second) {
                std::string fault = path;
                fault.append(".pop[").append(std::to_string(k)).append("] is '").append(printable(skip));
                throw ProfileError(fault +
                                   "'; a skip is popped by layers after the one that stashes it, once by each; "
                                   "correct the name");
            }
        }
        for (const auto& [skip, bytes] : layers[l].stash) {
            const std::string here = stash_path(path, skip);
            if (const auto [other, is_new] = stashed.emplace(skip, here); !is_new) {
                throw ProfileError(here + " is stashed by " + other->second +
                                   " already; a skip is stashed once; rename one of them");
            }
            waiting.emplace(skip, here);
        }
        for (const std::string& skip : layers[l].without_gradient) {
            if (!layers[l].stash.contains(skip)) {
                throw ProfileError(path + ".without_gradient names '" + printable(skip) +
                                   "', which the layer does not stash; it lists skips of its stash; remove the name");
            }
        }
    }
    if (!waiting.empty()) {
        throw ProfileError(
            waiting.begin()->second +
            " is never popped; a skip is popped by a later layer; add it to that layer's pop, or remove it");
    }
}
/// Layers that share a parameter agree on its bytes, which the first one holds.
void check_shared(const std::vector<LayerProfile>& layers) {
    struct First {
        std::string path;
        SharedBytes bytes;
        int users = 0;
    };
    std::map<std::string, First> found;
    for (std::size_t l = 0; l < layers.size(); ++l) {
        SharedBytes held;
        for (const auto& [name, bytes] : layers[l].shared) {
            const std::string path = "layers[" + std::to_string(l) + "].shared['" + printable(name) + "']";
            require_bytes(static_cast<double>(bytes.parameter_bytes), path + ".parameter_bytes");
            require_bytes(static_cast<double>(bytes.gradient_bytes), path + ".gradient_bytes");
            const auto [first, is_new] = found.try_emplace(name, First{path, bytes});
            if (is_new) {
                held.parameter_bytes += bytes.parameter_bytes;
                held.gradient_bytes += bytes.gradient_bytes;
            } else if (first->second.bytes != bytes) {
                throw ProfileError(path + " has other bytes than " + first->second.path +
                                   "; layers that share a parameter have one of it; make them equal, or profile again");
            }
            ++first->second.users;
        }
        if (held.parameter_bytes > layers[l].parameter_bytes || held.gradient_bytes > layers[l].gradient_bytes) {
            throw ProfileError("layers[" + std::to_string(l) +
                               "].shared holds more bytes than its parameter_bytes or gradient_bytes; the first layer "
                               "that uses a shared parameter counts it in; add them, or profile again");
        }
    }
    for (const auto& [name, first] : found) {
        if (first.users < 2) {
            throw ProfileError(first.path +
                               " is of no other layer; two or more share a parameter; name it there too, or remove it");
        }
    }
}
}  // namespace

void check_load(const MachineLoad& load, const std::string& path) {
    for (const auto& [key, share] : {std::pair{".others", load.others}, std::pair{".stolen", load.stolen},
                                     std::pair{".pressure", load.pressure.value_or(0)}}) {
        if (!(share >= 0 && share <= 1)) {
            throw ProfileError(path + key + " is " + text_of(share) +
                               "; it is a share of the cores' time, from 0 to 1; correct it, or leave the load out");
        }
    }
}

std::vector<std::string> dtypes() {
    std::vector<std::string> names;
    for (const NamedDtype& each : kDtypes) {
        names.emplace_back(each.name);
    }
    return names;
}

std::int64_t dtype_bytes(const std::string& dtype) {
    for (const NamedDtype& each : kDtypes) {
        if (each.name == dtype) {
            return each.bytes;
        }
    }
    throw UsageError("dtype is '" + printable(dtype) + "'; it must be one of " +
                     joined_text(kDtypes, ", ", &NamedDtype::name) + "; correct it");
}

void check_profile(const Profile& profile) {
    try {
        dtype_bytes(profile.dtype);
    } catch (const UsageError& error) {
        throw ProfileError(error.what() + std::string(", or profile again"));
    }
    check_samples(profile.samples);
    const std::size_t samples = profile.samples.size();
    require_per_size(profile.input_bytes, samples, false, "input_bytes", require_bytes);
    require_per_size(profile.loss_ns, samples, false, "loss_ns");
    check_operators(profile.loss_operators, samples, "loss_operators");
    check_operators(profile.loss_chains, samples, "loss_chains");
    check_batch_loss(profile.loss_batch);
    require_per_size(profile.loss_transient_bytes, samples, false, "loss_transient_bytes", require_bytes);
    require_per_size(profile.loss_all_gradients_transient_bytes, samples, false, "loss_all_gradients_transient_bytes",
                     require_bytes);
    require_number(profile.optimizer_ns, "optimizer_ns");
    require_number(profile.step_cv, "step_cv");
    require_number(profile.lane_cv, "lane_cv");
    if (profile.lane_cv > profile.step_cv) {
        throw ProfileError("lane_cv is " + std::to_string(profile.lane_cv) + "; it is a part of step_cv, which is " +
                           std::to_string(profile.step_cv) + "; use at most that");
    }
    require_number(profile.launch_ns, "launch_ns");
    if (profile.load) {
        check_load(*profile.load, "load");
    }
    if (profile.threads < 1) {
        throw ProfileError("threads is " + std::to_string(profile.threads) + "; a lane has at least 1 thread; use 1");
    }
    check_co_running(profile);
    if (profile.layers.empty()) {
        throw ProfileError("layers is empty; a profile holds at least one layer; profile the model again");
    }
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
        check_layer(profile.layers[l], samples, "layers[" + std::to_string(l) + "]");
    }
    check_skips(profile.layers);
    check_shared(profile.layers);
}

CheckedProfile::CheckedProfile(Profile&& profile) {
    check_profile(profile);
    profile_ = std::make_shared<const Profile>(std::move(profile));
}

CheckedProfile::CheckedProfile(const Profile& profile) : CheckedProfile(Profile(profile)) {}

Interpolated interpolate(const std::vector<std::int64_t>& samples, const PerSize& values, double at) {
    if (values.empty() || samples.empty()) {
        return {};
    }
    const auto x = [&](std::size_t k) { return static_cast<double>(samples[k]); };
    if (const auto exact =
            std::ranges::find_if(samples, [&](std::int64_t size) { return static_cast<double>(size) == at; });
        exact != samples.end()) {
        return {values.at(static_cast<std::size_t>(exact - samples.begin())), false};
    }
    if (samples.size() == 1) {
        return {values[0] * at / x(0), true};
    }
    const auto above = std::upper_bound(samples.begin(), samples.end(), at, [](double left, std::int64_t right) {
        return left < static_cast<double>(right);
    });
    const bool outside = above == samples.begin() || above == samples.end();
    const std::size_t hi =
        std::clamp<std::size_t>(static_cast<std::size_t>(above - samples.begin()), 1, samples.size() - 1);
    const double slope = (values.at(hi) - values.at(hi - 1)) / (x(hi) - x(hi - 1));
    return {std::max(0.0, values[hi - 1] + slope * (at - x(hi - 1))), outside};
}

Bytes rounded_bytes(double bytes) {
    return std::llround(std::min(bytes, kMostPerStep));
}

namespace {
/// True if its backward computes gradients of parameters, its own or shared ones.
bool has_gradients(const LayerProfile& layer) {
    return layer.gradient_bytes > 0 ||
           std::ranges::any_of(layer.shared, [](const auto& each) { return each.second.gradient_bytes > 0; });
}
}  // namespace

Interpolated backward_weight_time(const Profile& profile, const LayerProfile& layer, double samples) {
    const Interpolated whole = interpolate(profile.samples, layer.backward_ns, samples);
    if (layer.backward_weight_ns.empty()) {
        return {has_gradients(layer) ? whole.value / 2 : 0, whole.extrapolated};
    }
    Interpolated weights = interpolate(profile.samples, layer.backward_weight_ns, samples);
    weights.value = std::min(weights.value, whole.value);
    return weights;
}

bool has_launches(const Profile& profile) {
    return std::ranges::any_of(profile.layers, [](const LayerProfile& layer) { return !layer.launches.empty(); });
}

bool has_weight_half(const LayerProfile& layer) {
    return layer.backward_weight_ns.empty()
               ? has_gradients(layer)
               : std::ranges::any_of(layer.backward_weight_ns, [](double each) { return each > 0; });
}

double optimizer_time(const Profile& profile, LayerRange layers) {
    double all = 0;
    double own = 0;
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
        const auto bytes = static_cast<double>(profile.layers[l].gradient_bytes);
        all += bytes;
        own += l >= layers.first.index() && l < layers.end.index() ? bytes : 0;
    }
    return all > 0 ? profile.optimizer_ns * (own / all) : 0;
}

Interpolated loss_time(const Profile& profile, double samples) {
    if (profile.loss_batch.samples.empty()) {
        return interpolate(profile.samples, profile.loss_ns, samples);
    }
    std::map<std::int64_t, double> known;
    for (std::size_t k = 0; k < profile.loss_ns.size(); ++k) {
        known[profile.samples[k]] = profile.loss_ns[k];
    }
    for (std::size_t k = 0; k < profile.loss_batch.samples.size(); ++k) {
        known[profile.loss_batch.samples[k]] = profile.loss_batch.ns[k];
    }
    std::vector<std::int64_t> sizes;
    PerSize times;
    for (const auto& [size, ns] : known) {
        sizes.push_back(size);
        times.push_back(ns);
    }
    return interpolate(sizes, times, samples);
}

Bytes loss_transient(const Profile& profile, std::int64_t samples, bool is_gathered, bool all_gradients) {
    const auto chosen = [&](const PerSize& all, const PerSize& own) -> const PerSize& {
        return all_gradients && !all.empty() ? all : own;
    };
    const BatchLoss& batch = profile.loss_batch;
    const PerSize& of_batch = chosen(batch.all_gradients_transient_bytes, batch.transient_bytes);
    const PerSize& of_micro_batch = chosen(profile.loss_all_gradients_transient_bytes, profile.loss_transient_bytes);
    const bool is_measured = is_gathered && !of_batch.empty();
    const auto at = static_cast<double>(samples);
    return rounded_bytes(
        (is_measured ? interpolate(batch.samples, of_batch, at) : interpolate(profile.samples, of_micro_batch, at))
            .value);
}
}  // namespace pipescope
