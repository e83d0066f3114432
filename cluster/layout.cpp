#include "cluster/layout.h"

#include "base/error.h"
#include "base/number_ranges.h"
#include "base/parse_name.h"
#include "base/printable.h"
#include "base/quantities.h"
#include "cluster/layout_activations.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <optional>
#include <utility>

namespace pipescope {
namespace {
[[noreturn]] void refuse(const std::string& value, const std::string& rule, const std::string& remedy) {
    const bool is_option = value.starts_with(kOptionBegin);
    throw UsageError((is_option ? "" : "layout ") + value + "; " + rule + "; " + remedy);
}

void check_count(const char* name, std::int64_t count) {
    if (count < 1) {
        refuse(option_name(name) + " is " + std::to_string(count), "each count is at least 1", "correct it");
    }
}
}  // namespace

const TrainingProgram& Layout::how() const {
    static const TrainingProgram nothing;
    return program ? *program : nothing;
}

bool has_master_weights(const Layout& layout) {
    return !layout.no_master_weights && dtype_bytes(layout.dtype) < 4;
}

double state_bytes(const Layout& layout, bool in_block) {
    constexpr double kFloat32 = 4;
    return moment_bytes(layout.optimizer, static_cast<double>(dtype_bytes(layout.dtype)), in_block) +
           (has_master_weights(layout) ? kFloat32 : 0);
}

double kept_bytes(const Layout& layout, bool in_block) {
    return layout.offload_rate > 0 ? 0 : state_bytes(layout, in_block);
}

Schedule usual_schedule(int interleave) {
    return interleave > 1 ? Schedule::interleaved_1f1b : Schedule::one_f_one_b;
}

Schedule schedule_of(const Layout& layout) {
    return layout.schedule.value_or(usual_schedule(layout.interleave));
}

std::vector<LaneId> placement_in(const Layout& layout) {
    if (layout.interleave == 1) {
        return {};
    }
    const auto partitions = static_cast<std::size_t>(layout.pipeline) * static_cast<std::size_t>(layout.interleave);
    std::vector<LaneId> placement =
        placement_of(schedule_of(layout), partitions, static_cast<std::size_t>(layout.pipeline));
    for (std::size_t j = 0; placement.size() < partitions; ++j) {  // auto deals them out in turn
        placement.push_back(LaneId{static_cast<std::int64_t>(j) % layout.pipeline});
    }
    return placement;
}

bool has_even_cuts(const LanguageModel& model, const Layout& layout) {
    return layout.cuts == Cuts::even &&
           model.layers % (static_cast<std::int64_t>(layout.pipeline) * layout.interleave) == 0;
}

bool ends_share_a_lane(const Layout& layout) {
    const std::vector<LaneId> placement = placement_in(layout);
    return layout.pipeline == 1 || is_bidirectional(schedule_of(layout)) ||
           (!placement.empty() && placement.front() == placement.back());
}

std::string to_string(TokenDispatch dispatch) {
    switch (dispatch) {
        case TokenDispatch::expert: return "expert";
        case TokenDispatch::node: return "node";
    }
    return "unknown";
}

TokenDispatch parse_token_dispatch(std::string_view name) {
    return parse_name<TokenDispatch>(name, {TokenDispatch::expert, TokenDispatch::node},
                                     option_name("token-dispatch") + " is '" + printable(name) + "'",
                                     "leave it out for expert");
}

void set_dtype(Layout& layout, const std::string& dtype) {
    const std::vector<std::string> whole = dtypes();
    if (std::ranges::find(short_dtypes(), dtype, &ShortDtype::name) != short_dtypes().end()) {
        layout.product_dtype = dtype;
    } else if (std::ranges::find(whole, dtype) != whole.end()) {
        layout.dtype = dtype;
    } else if (!dtype.empty()) {
        throw UsageError(option_name("dtype") + " is '" + printable(dtype) + "'; it must be one of " +
                         joined_text(whole, ", ", std::identity()) + ", or for the products of a gpt: model " +
                         joined_text(short_dtypes(), ", ", &ShortDtype::name) + "; correct it");
    }
    layout.gradient_bytes = std::max(layout.gradient_bytes, dtype_bytes(layout.dtype) > 4 ? 8 : 2);
}

void set_dtype(Layout& layout, const Profile& profile) {
    layout.dtype = profile.dtype;
    layout.gradient_bytes = static_cast<int>(std::clamp<std::int64_t>(dtype_bytes(profile.dtype), 2, 8));
}

std::string to_string(const PipelineParts& parts) {
    std::string text;
    for (const PipelinePart& part : parts) {
        text += (text.empty() ? "" : ",") + part.group->device.name +
                (parts.size() > 1 ? ":" + std::to_string(part.lanes) : "");
    }
    return text;
}

std::string to_string(const Layout& layout) {
    return "p" + std::to_string(layout.pipeline) + " d" + std::to_string(layout.data) +
           (layout.context > 1 ? " c" + std::to_string(layout.context) : "") + " t" + std::to_string(layout.tensor) +
           (layout.expert > 1 ? " e" + std::to_string(layout.expert) : "") + " v" + std::to_string(layout.interleave) +
           " b" + std::to_string(layout.micro_batch_size) +
           (layout.cuts == Cuts::even  ? ""
            : layout.cuts == Cuts::own ? " cuts " + to_string(layout.cuts)
                                       : " quickest cuts");
}

PipelineParts parse_pipeline_parts(const std::string& text, const Cluster& cluster, int lanes) {
    if (text.empty() && cluster.groups.size() == 1) {
        return {{&cluster.groups.front(), lanes}};
    }
    std::string known;
    for (const NodeGroup& group : cluster.groups) {
        known += (known.empty() ? "" : ", ") + group.device.name;
    }
    const auto refuse_types = [&](const std::string& rule) {
        throw UsageError((text.empty() ? option_name("device-types") + " is missing; "
                                       : option_name("device-types") + " is '" + printable(text) + "'; ") +
                         rule + "; name one of " + known +
                         ", or several with their numbers of lanes, in order, such as A100:4,V100:4");
    };
    if (text.empty()) {
        refuse_types("the cluster has several types");
    }
    PipelineParts parts;
    for (const std::string& item : parse_list(text, option_name("device-types"))) {
        const std::size_t colon = std::min(item.find(':'), item.size());
        const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
        const auto group = std::ranges::find_if(cluster.groups, [&](const NodeGroup& each) {
            return std::ranges::equal(each.device.name, item.substr(0, colon), same);
        });
        if (group == cluster.groups.end()) {
            refuse_types("the cluster has no type '" + printable(item.substr(0, colon)) + "'");
        }
        int own = lanes;
        if (colon < item.size()) {
            own = parse_number<int>(text, item.substr(colon + 1), option_name("device-types"), "A100:4,V100:4");
        }
        if (own < 1) {
            refuse_types("a type has one lane or more");
        }
        parts.push_back({&*group, own});
    }
    return parts;
}

void check_layout(const Layout& layout, const PipelineParts& parts) {
    check_count("partitions", layout.pipeline);
    check_count("data-parallel", layout.data);
    check_count("tensor-parallel", layout.tensor);
    check_count("context-parallel", layout.context);
    check_count("expert-parallel", layout.expert);
    check_count("interleave", layout.interleave);
    check_count("micro-batch-size", layout.micro_batch_size);
    check_count("batch", layout.batch);
    constexpr std::int64_t kMostPartitionsOfAll = 4096;
    if (static_cast<std::int64_t>(layout.pipeline) * layout.interleave > kMostPartitionsOfAll) {
        refuse(to_string(layout) + " has more than 4096 partitions", "a pipeline has at most that many",
               "use fewer lanes, or less interleaving");
    }
    std::int64_t lanes = 0;
    for (std::size_t k = 0; k < parts.size(); ++k) {
        const auto& [group, own] = parts[k];
        lanes += own;
        const double devices = static_cast<double>(own) * layout.data * layout.context * layout.tensor;  // may be large
        if (devices > group->devices()) {
            refuse(
                to_string(layout) + " needs " + shortest(devices) + " devices" +
                    (parts.size() > 1 ? " of type " + group->device.name : ""),
                "the cluster has " + counted(group->devices(), "device", "devices") + " of type " + group->device.name,
                "use fewer lanes, replicas or tensor-parallel ranks");
        }
        for (std::size_t other = 0; other < k; ++other) {
            if (parts[other].group == group) {
                refuse("lies on " + to_string(parts), "lanes on one type are next to each other",
                       "name each type once");
            }
        }
    }
    if (lanes != layout.pipeline) {
        refuse("lies on " + to_string(parts) + ", " + counted(lanes, "lane", "lanes"),
               "the pipeline has " + std::to_string(layout.pipeline), "let the lanes of the types add up to it");
    }
    if (layout.micro_batch_size > kMostSamples) {
        refuse(option_name("micro-batch-size") + " is " + std::to_string(layout.micro_batch_size),
               "a micro-batch has at most 2^40 samples", "use a smaller one");
    }
    if (layout.batch > kMostSamples) {
        refuse(option_name("batch") + " is " + std::to_string(layout.batch), "a batch has at most 2^40 samples",
               "use a smaller one");
    }
    if (layout.batch % layout.data != 0 || layout.batch / layout.data % layout.micro_batch_size != 0) {
        refuse(option_name("batch") + " is " + std::to_string(layout.batch),
               "it must be a multiple of replicas times micro-batch size, " + std::to_string(layout.data) + " x " +
                   std::to_string(layout.micro_batch_size),
               "change one of the three");
    }
    if (layout.weight_copies().ranks > 1 && !is_synchronous(schedule_of(layout))) {
        refuse((layout.data > 1 ? option_name("data-parallel") + " is " + std::to_string(layout.data)
                                : option_name("context-parallel") + " is " + std::to_string(layout.context)) +
                   " with " + option_name("schedule") + " " + to_string(schedule_of(layout)),
               "that schedule never drains, and sums of gradients in every period are not simulated",
               "leave one of both out");
    }
    if (layout.stage_devices() % layout.expert != 0) {
        refuse(option_name("expert-parallel") + " is " + std::to_string(layout.expert),
               "it must divide the devices of a lane, the product of those of data, context and tensor parallelism, " +
                   std::to_string(layout.stage_devices()),
               "use another number");
    }
    if (layout.zero < 0 || layout.zero > 3) {
        refuse(option_name("zero") + " is " + std::to_string(layout.zero), "ZeRO has stages 0 to 3", "correct it");
    }
    if (layout.gradient_bytes != 2 && layout.gradient_bytes != 4 && layout.gradient_bytes != 8) {
        refuse(option_name("gradient-bytes") + " is " + std::to_string(layout.gradient_bytes),
               "a gradient takes 2, 4 or 8 bytes", "correct it");
    }
    if (layout.gradient_bucket < 0) {
        refuse(option_name("gradient-bucket") + " is " + std::to_string(layout.gradient_bucket), "it counts bytes",
               "use 0 for none");
    }
    if (layout.sequence_parallel && layout.tensor == 1) {
        refuse("has sequence parallelism with one tensor-parallel rank", "such ranks split the tokens among them",
               "leave it out");
    }
    if (layout.micro_batches() > kMostMicroBatches) {
        refuse("has " + counted(layout.micro_batches(), "micro-batch", "micro-batches"),
               "a pipeline has at most " + std::to_string(kMostMicroBatches),
               "use larger micro-batches, or more replicas");
    }
    if (is_bidirectional(schedule_of(layout)) && parts.size() > 1) {
        refuse("lies on " + to_string(parts) + " with schedule " + to_string(schedule_of(layout)),
               "each partition runs on two lanes, which are of one type", "name one type, or use dualpipe-v");
    }
    if (layout.interleave == 1 && layout.pipeline > 1 && !runs_one_partition_a_lane(schedule_of(layout)) &&
        !is_bidirectional(schedule_of(layout)) && schedule_of(layout).file() == nullptr) {
        refuse(option_name("interleave") + " is 1 with schedule " + to_string(schedule_of(layout)),
               "that schedule runs several partitions a lane", "use " + option_name("interleave") + " 2");
    }
    if (layout.interleave > 1 &&
        (runs_one_partition_a_lane(schedule_of(layout)) || is_bidirectional(schedule_of(layout))) &&
        schedule_of(layout) != Schedule::automatic) {
        refuse(option_name("interleave") + " is " + std::to_string(layout.interleave) + " with schedule " +
                   to_string(schedule_of(layout)),
               "that schedule runs one partition per lane", "use interleaved, or leave one of both out");
    }
}

double largest_layer_flops(const LanguageModel& model, const Layout& layout) {
    const auto samples = static_cast<double>(layout.micro_batch_size);
    double most = output_flops(model, samples) + mtp_flops(model, samples);
    for (const BlockKind kind : block_kinds(model)) {
        most = std::max(most, block_flops(model, kind, samples));
    }
    return most / layout.tensor / layout.context;
}

void check_layer_flops(const LanguageModel& model, const Layout& layout, const std::string& remedy) {
    if (const double flops = largest_layer_flops(model, layout); flops > kMostLayerFlops) {
        throw UsageError("model has a layer of " + shortest(flops) + " operations for a micro-batch, with hidden " +
                         std::to_string(model.hidden) + ", mlp " + std::to_string(model.mlp) + ", sequence " +
                         std::to_string(model.sequence) + " and vocabulary " + std::to_string(model.vocabulary) +
                         "; a layer has at most 2^53 on one device; " + remedy);
    }
}

LanguageModel as_run(const LanguageModel& model, const Layout& layout) {
    LanguageModel run = model;
    if (!layout.product_dtype.empty() && model.whole_blocks == 0) {
        run.whole_blocks = std::min(layout.how().bfloat16_blocks, model.layers / 2);
    }
    return run;
}

int expert_tensor_of(const LanguageModel& model, const Layout& layout) {
    const double widest = layout.how().split_experts_from;
    const bool is_wide = widest > 0 && static_cast<double>(model.expert_hidden) >= widest;
    const bool divides = model.expert_hidden % layout.tensor == 0 &&
                         layout.stage_devices() % (static_cast<std::int64_t>(layout.expert) * layout.tensor) == 0;
    return model.experts > 0 && is_wide && divides ? layout.tensor : 1;
}

int most_zero(const Layout& layout) {
    return layout.pipeline > 1 ? layout.how().pipeline_zero : 3;
}

void check_dispatch(const LanguageModel& model, const Layout& layout) {
    if (layout.dispatch != TokenDispatch::expert && model.experts == 0) {
        refuse(option_name("token-dispatch") + " is " + to_string(layout.dispatch), "the model has no experts",
               "leave it out");
    }
}

void check_optimizer(const LanguageModel& model, const Layout& layout) {
    if (layout.optimizer == ModelOptimizer::muon && model.lora > 0) {
        refuse(option_name("optimizer") + " is muon with lora", "it is for matrices that are large in both dimensions",
               "use adam");
    }
    if (layout.offload_rate > 0 && state_bytes(layout, false) == 0) {
        refuse(option_name("offload") + " is given with " + option_name("optimizer") + " " +
                   to_string(layout.optimizer) + ", which keeps no state",
               "there is nothing to move", "leave it out");
    }
}

void check_layout(const LanguageModel& model, const Layout& layout, const PipelineParts& parts) {
    check_layout(layout, parts);
    check_layer_flops(model, layout,
                      "correct the model, or split it further with " + option_name("context-parallel") + " or " +
                          option_name("tensor-parallel"));
    const auto check = [&](const char* name, std::int64_t number) {
        if (number % layout.tensor != 0) {
            refuse(option_name("tensor-parallel") + " is " + std::to_string(layout.tensor),
                   "it must divide the model's " + std::string(name) + ", " + std::to_string(number),
                   "use another number of ranks");
        }
    };
    check("heads", model.heads);
    const auto has = [&](auto part) { return std::ranges::any_of(block_kinds(model), part); };
    if (has([](BlockKind kind) { return !kind.has_experts; })) {
        check("mlp", model.mlp);
    }
    if (has(&BlockKind::has_state)) {
        check("state_heads", model.state_heads);
        if (layout.context > 1) {
            refuse(option_name("context-parallel") + " is " + std::to_string(layout.context),
                   "the states of state-space layers go from token to token, which is not modelled on several devices",
                   "leave it out");
        }
    }
    if (model.shared_experts > 0) {
        check("shared experts' width", model.shared_experts * model.expert_hidden);
    }
    if (model.kv_heads % layout.tensor != 0 && layout.tensor % model.kv_heads != 0) {
        check("kv_heads", model.kv_heads);
    }
    if (layout.sequence_parallel) {
        check("sequence", model.sequence);
    }
    if (layout.context > 1) {
        const std::int64_t pieces = 2LL * layout.context * sequence_split(layout);
        if (model.attention != Attention::flash) {
            refuse(
                option_name("context-parallel") + " is " + std::to_string(layout.context) + " with standard attention",
                "keys and values of other devices come one after the other, which only flash attention can take",
                "add attention=flash to the model");
        }
        if (model.sequence % pieces != 0) {
            refuse(option_name("context-parallel") + " is " + std::to_string(layout.context),
                   "each device has two parts of a sample's tokens, so that " + std::to_string(pieces) +
                       " must divide the model's sequence, " + std::to_string(model.sequence),
                   "use another number of devices");
        }
    }
    if (layout.expert > 1 && (model.experts == 0 || model.experts % layout.expert != 0)) {
        refuse(option_name("expert-parallel") + " is " + std::to_string(layout.expert),
               model.experts == 0 ? "the model has no experts"
                                  : "it must divide the model's experts, " + std::to_string(model.experts),
               "use another number, or leave it out");
    }
    check_dispatch(model, layout);
    check_optimizer(model, layout);
    if (model.experts > 0 && layout.tensor > 1 && !layout.sequence_parallel) {
        refuse("has " + std::to_string(layout.tensor) + " tensor-parallel devices without sequence parallelism",
               "experts need it, so that each device sends its own tokens", "add " + option_name("sequence-parallel"));
    }
    const std::int64_t partitions = static_cast<std::int64_t>(layout.pipeline) * layout.interleave;
    check_cuts(layout.cuts, partitions, model.layers, model.mtp);
    if (constexpr std::int64_t kEnds = 2; partitions > model.layers + kEnds) {
        refuse("has " + counted(partitions, "partition", "partitions"),
               "each holds the embedding, the output layer or at least one of the model's " +
                   counted(model.layers, "block", "blocks"),
               "use fewer lanes, or less interleaving");
    }
}

void check_layout(const Profile& profile, const Layout& layout, const PipelineParts& parts) {
    check_layout(layout, parts);
    if (layout.tensor != 1 || layout.context != 1 || layout.expert != 1 || layout.zero != 0 ||
        layout.sequence_parallel) {
        refuse(to_string(layout) + " splits the layers of a profile", "a profile's costs are those of whole layers",
               "use pipeline and data parallelism only");
    }
    if (parts.size() > 1 && !has_operations(profile)) {
        refuse("lies on " + to_string(parts), "a profile without operations has the times of one device only",
               "profile again, or name one type");
    }
}
}  // namespace pipescope
