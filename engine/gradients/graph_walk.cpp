#include "engine/gradients/graph_walk.h"

#include "engine/gradients/leaf_gradients.h"
#include "engine/torch_internals.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <typeindex>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::InputBuffer;
using torch::autograd::Node;

bool has_hooks(Node& node) {
    return has_pre_hooks(node) || !node.post_hooks().empty() || !node.tensor_pre_hooks().empty() ||
           !node.retains_grad_hooks().empty() || node.tensor_post_acc_grad_hooks() != nullptr;
}

/// The shared library or program that contains an address.
const void* module_of(const void* address) {
    Dl_info info{};
    return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

/// True for a type of LibTorch. Remembers it for all threads: looking it up takes half a millisecond.
bool is_of_libtorch(const std::type_info& type) {
    struct Known {
        std::mutex mutex;
        std::unordered_map<const std::type_info*, bool> types;
    };
    static Known known;
    static const void* const libtorch =
        module_of(reinterpret_cast<const void*>(&torch::autograd::Engine::get_default_engine));
    const std::lock_guard lock(known.mutex);
    const auto [found, is_new] = known.types.try_emplace(&type);
    if (is_new) {
        found->second = module_of(&type) == libtorch;
    }
    return found->second;
}

/// The ways to run nodes of a type.
struct NodeType {
    bool walk = false;   ///< run it without the engine
    bool split = false;  ///< run it twice, for a part of its outputs each time
    bool own = false;    ///< a type outside LibTorch
};

/// Types outside LibTorch that do not need the engine. Process-wide, as types are.
struct OwnTypes {
    std::mutex mutex;
    std::unordered_map<std::type_index, NodeType> types;
};
OwnTypes& own_types() {
    static OwnTypes one;
    return one;
}
void add_own_type(const std::type_info& type, NodeType allowed) {
    const std::lock_guard lock(own_types().mutex);
    own_types().types[type] = allowed;
}
NodeType own_type(const std::type_info& type) {
    const std::lock_guard lock(own_types().mutex);
    const auto found = own_types().types.find(type);
    return found == own_types().types.end() ? NodeType{} : found->second;
}

/// LibTorch's nodes whose two halves together cost what the whole does: products, which compute each gradient by a
/// product of its own. The others with weights are fused (norms, recurrent cells) or cheap (sums, scales): a second
/// call would read everything again.
constexpr std::array<std::string_view, 9> kProducts = {"AddmmBackward0",   "MmBackward0",     "BmmBackward0",
                                                       "BaddbmmBackward0", "AddbmmBackward0", "MvBackward0",
                                                       "AddmvBackward0",   "LinearBackward0", "ConvolutionBackward0"};

NodeType type_of(const Node& node) {
    thread_local std::unordered_map<const std::type_info*, NodeType> known;
    const std::type_info& type = typeid(node);
    const auto [found, is_new] = known.try_emplace(&type);
    if (is_new) {
        if (is_of_libtorch(type)) {
            const bool is_product = std::find(kProducts.begin(), kProducts.end(), node.name()) != kProducts.end();
            found->second = {.walk = true, .split = is_product};
        } else {
            found->second = own_type(type);
        }
    }
    return found->second;
}

/// False for users' nodes: a torch::autograd::Function is a type of theirs.
bool may_walk(const Node& node) {
    return type_of(node).walk;
}

/// The sum of two gradients that meet at a node's input, as the engine adds them.
at::Tensor sum_of(at::Tensor one, at::Tensor other, const Edge& edge, const std::optional<c10::Stream>& stream) {
    InputBuffer sum(edge.function->num_inputs());
    for (at::Tensor* const each : {&one, &other}) {
        sum.add(edge.input_nr, std::move(*each), stream, stream, edge.function.get());
    }
    return std::move(sum.buffer[edge.input_nr]);
}

/// A node that waits for gradients.
struct Visit {
    Node* node;
    int missing = 0;      ///< edges without a gradient so far
    Tensors inputs = {};  ///< empty until the first gradient
};

/// Memory of one walk, on the stack for small graphs: a walk allocates more often than a small layer does.
class WalkMemory {
public:
    std::pmr::memory_resource* get() { return &resource_; }

private:
    std::array<std::byte, 2048> first_;
    std::pmr::monotonic_buffer_resource resource_{first_.data(), first_.size()};
};

/// The nodes of a graph that goes backward, in the engine's order.
template <class Visit>
class Visits {
public:
    explicit Visits(WalkMemory& memory)
        : visits_(memory.get()), ready_(IsCreatedEarlier(), std::pmr::vector<Visit*>(memory.get())) {}

    /// Counts an edge. Returns its node, and true if the edge is the first that leads there.
    std::pair<Visit*, bool> count(const Edge& edge) {
        Node* const node = edge.function.get();
        const auto [visit, is_new] = visits_.try_emplace(node, Visit{node});
        ++visit->second.missing;
        return {&visit->second, is_new};
    }
    Visit& at(const Edge& edge) { return visits_.at(edge.function.get()); }

    /// `stream`: where gradients on an accelerator are added.
    void deliver(const Edge& edge, at::Tensor gradient, const std::optional<c10::Stream>& stream = std::nullopt) {
        Visit& visit = at(edge);
        if (visit.inputs.empty()) {
            visit.inputs.resize(visit.node->num_inputs());
        }
        at::Tensor& input = visit.inputs[edge.input_nr];
        if (!input.defined()) {
            input = std::move(gradient);
        } else if (gradient.defined()) {
            input = sum_of(std::move(input), std::move(gradient), edge, stream);
        }
        if (--visit.missing == 0) {
            ready_.push(&visit);
        }
    }
    /// A node all of whose gradients are there, or null.
    Visit* take_ready() {
        if (ready_.empty()) {
            return nullptr;
        }
        Visit* const visit = ready_.top();
        ready_.pop();
        return visit;
    }

private:
    struct IsCreatedEarlier {
        bool operator()(const Visit* one, const Visit* other) const {
            return one->node->sequence_nr() < other->node->sequence_nr();
        }
    };

    std::pmr::unordered_map<Node*, Visit> visits_;
    std::priority_queue<Visit*, std::pmr::vector<Visit*>, IsCreatedEarlier> ready_;
};

void validate(Node& node, Tensors& outputs) {
    torch::autograd::validate_outputs(node.next_edges(), outputs, [&node](const std::string& what) {
        return "Function " + node.name() + " returned an " + what;
    });
}

void validate_ends(const edge_list& ends, Tensors& gradients) {
    torch::autograd::validate_outputs(ends, gradients, [](const std::string& what) { return what; });
}

/// Calls a node for the last time.
Tensors run_node(Node& node, Tensors inputs) {
    own_leaf_gradient(node, inputs);
    node.will_release_variables();
    Tensors outputs = node(std::move(inputs));
    inputs.clear();  // so that a gradient held only by this node may be added to in place
    validate(node, outputs);
    node.release_variables();
    return outputs;
}

// ---- Whole ----

class GraphWalk {
public:
    /// Finds the nodes behind `ends`; returns false if one of them needs the engine.
    bool find_nodes(const edge_list& ends);
    void run(const edge_list& ends, Tensors& gradients);

private:
    bool count(const Edge& edge);
    void run(Visit& visit);

    WalkMemory memory_;
    Visits<Visit> visits_{memory_};
    std::pmr::vector<Node*> found_{memory_.get()};  // nodes whose edges are still to follow
};

bool GraphWalk::find_nodes(const edge_list& ends) {
    for (const Edge& end : ends) {
        if (!count(end)) {
            return false;
        }
    }
    while (!found_.empty()) {
        const Node* const node = found_.back();
        found_.pop_back();
        for (const Edge& edge : node->next_edges()) {
            if (edge.is_valid() && !count(edge)) {
                return false;
            }
        }
    }
    return true;
}

bool GraphWalk::count(const Edge& edge) {
    Node* const node = edge.function.get();
    const bool is_new = visits_.count(edge).second;
    if (is_new) {
        found_.push_back(node);
    }
    return !is_new || (node->device().is_cpu() && !has_hooks(*node) && may_walk(*node));
}

void GraphWalk::run(const edge_list& ends, Tensors& gradients) {
    validate_ends(ends, gradients);
    for (std::size_t k = 0; k < ends.size(); ++k) {
        visits_.deliver(ends[k], std::move(gradients[k]));
    }
    gradients.clear();
    while (Visit* const visit = visits_.take_ready()) {
        run(*visit);
    }
}

void GraphWalk::run(Visit& visit) {
    Node& node = *visit.node;
    Tensors outputs = run_node(node, std::exchange(visit.inputs, {}));
    for (std::size_t k = 0; k < outputs.size(); ++k) {
        if (node.next_edge(k).is_valid()) {
            visits_.deliver(node.next_edge(k), std::move(outputs[k]));
        }
    }
}

// ---- In halves ----

/// Receives what a node computes that the engine runs by itself.
class Collector final : public Node {
public:
    explicit Collector(const edge_list& edges) {
        for (const Edge& edge : edges) {
            if (!edge.is_valid() || edge.function->input_metadata(edge.input_nr).was_default_constructed()) {
                add_input_metadata(Node::undefined_input());
                continue;
            }
            const auto& like = edge.function->input_metadata(edge.input_nr);
            add_input_metadata(like.options(), like.shape_as_dim_vector(), like.is_tensor_subclass(),
                               like.is_nested_tensor(), like.grad_dtype());
        }
    }
    torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
        gradients_ = std::move(gradients);
        return {};
    }
    Tensors take() {
        gradients_.resize(num_inputs());
        return std::move(gradients_);
    }

private:
    Tensors gradients_;
};

/// Lets the engine run one node: what lies behind it is replaced meanwhile. An output that nothing uses has no
/// gradient, which the engine takes for no end of a graph.
Tensors run_by_engine(Node& node, Tensors inputs) {
    edge_list ends;
    Tensors gradients;
    for (std::uint32_t k = 0; k < inputs.size(); ++k) {
        if (inputs[k].defined()) {
            ends.emplace_back(node.getptr(), k);
            gradients.push_back(std::move(inputs[k]));
        }
    }
    if (ends.empty()) {
        return run_node(node, std::move(inputs));
    }
    inputs.clear();
    own_leaf_gradient(node, gradients);
    const NodePtr<Collector> collector = make_node<Collector>(node.next_edges());
    struct Detour {
        Detour(Node& around, const NodePtr<Collector>& to, std::uint32_t first)
            : node(around), edges(around.next_edges()) {
            for (std::uint32_t k = first; k < edges.size(); ++k) {
                if (edges[k].is_valid()) {
                    node.next_edges()[k] = Edge(to, k);
                }
            }
        }
        ~Detour() { node.next_edges() = std::move(edges); }
        Detour(const Detour&) = delete;
        Detour& operator=(const Detour&) = delete;

        Node& node;
        edge_list edges;
    };
    const Detour detour(node, collector, 0);
    // A change of a view holds the node of that change, which leads to the same nodes but for the first.
    const auto* const change_of_view = dynamic_cast<const torch::autograd::CopySlices*>(&node);
    const NodePtr<> change = change_of_view != nullptr ? change_of_view->fn : NodePtr<>();
    std::optional<Detour> within;
    if (change) {
        within.emplace(*change, collector, 1);
    }
    run_engine(ends, gradients);
    return collector->take();
}

class InputHalf {
public:
    InputHalf(const Node* inputs, const LayerMarks& marks, SplitNotes& notes)
        : inputs_(inputs), marks_(marks), notes_(notes) {}

    /// Replaces both by what remains for the weights.
    void run(edge_list& ends, Tensors& gradients);

private:
    struct SplitVisit : Visit {
        bool is_activation = false;  ///< a value between two layers, or on the way to the inputs
    };

    void find_nodes(const edge_list& ends);
    void find_behind(SplitVisit* visit);
    void run(SplitVisit& visit);
    void run_whole(SplitVisit& visit, Tensors inputs);
    void run_for_activations(SplitVisit& visit, Tensors inputs);
    void leave(Node& node, Tensors inputs);
    bool needs_engine(Node& node) const;
    std::optional<c10::Stream> stream_of(Node& node) const;
    std::size_t layer_of(const Node& node) const;

    const Node* inputs_;
    const LayerMarks& marks_;
    SplitNotes& notes_;
    const bool is_anomaly_mode_ = torch::autograd::AnomalyMode::is_enabled();
    WalkMemory memory_;
    Visits<SplitVisit> visits_{memory_};
    std::pmr::vector<SplitVisit*> found_{memory_.get()};  // a node behind those it leads to
    std::vector<NodePtr<>> cut_;                          // nodes to which split nodes led
    edge_list later_;
    Tensors later_gradients_;
};

/// The layer that made the node, from 1; 0 for what was made before, and for a leaf, whose number is the highest.
std::size_t InputHalf::layer_of(const Node& node) const {
    if (node.num_outputs() == 0) {
        return 0;
    }
    return static_cast<std::size_t>(std::upper_bound(marks_.begin(), marks_.end(), node.sequence_nr()) -
                                    marks_.begin());
}

void InputHalf::find_nodes(const edge_list& ends) {
    for (const Edge& end : ends) {
        const auto [visit, is_new] = visits_.count(end);
        visit->is_activation = true;
        if (is_new) {
            find_behind(visit);
        }
    }
    for (SplitVisit* const visit : found_) {
        const edge_list& edges = visit->node->next_edges();
        visit->is_activation = visit->is_activation || visit->node == inputs_ ||
                               std::any_of(edges.begin(), edges.end(), [this](const Edge& edge) {
                                   return edge.is_valid() && visits_.at(edge).is_activation;
                               });
    }
}

/// Depth first, without recursion: graphs are deep.
void InputHalf::find_behind(SplitVisit* first) {
    struct Branch {
        SplitVisit* visit;
        std::size_t layer;
        std::size_t next = 0;
    };
    std::vector<Branch> path{{first, layer_of(*first->node)}};
    while (!path.empty()) {
        Branch& at = path.back();
        if (at.next == at.visit->node->next_edges().size()) {
            found_.push_back(at.visit);
            path.pop_back();
            continue;
        }
        const Edge& edge = at.visit->node->next_edge(at.next++);
        if (!edge.is_valid()) {
            continue;
        }
        const auto [visit, is_new] = visits_.count(edge);
        const std::size_t layer = layer_of(*visit->node);
        if (layer > 0 && layer < at.layer) {
            visit->is_activation = true;
        }
        if (is_new) {
            path.push_back({visit, layer});
        }
    }
}

void InputHalf::run(edge_list& ends, Tensors& gradients) {
    find_nodes(ends);
    validate_ends(ends, gradients);
    for (std::size_t k = 0; k < ends.size(); ++k) {
        const std::optional<c10::Stream> stream = stream_of(*ends[k].function);
        visits_.deliver(ends[k], std::move(gradients[k]), stream);
    }
    gradients.clear();
    while (SplitVisit* const visit = visits_.take_ready()) {
        run(*visit);
    }
    for (SplitVisit* const visit : found_) {  // gradients that still miss a part
        if (!visit->inputs.empty()) {
            leave(*visit->node, std::exchange(visit->inputs, {}));
        }
    }
    ends = std::move(later_);
    gradients = std::move(later_gradients_);
}

void InputHalf::run(SplitVisit& visit) {
    Node& node = *visit.node;
    Tensors inputs = std::exchange(visit.inputs, {});
    bool to_activations = false;
    bool to_weights = false;
    for (const Edge& edge : node.next_edges()) {
        if (edge.is_valid()) {
            (visits_.at(edge).is_activation ? to_activations : to_weights) = true;
        }
    }
    const bool splits = type_of(node).split && !needs_engine(node);
    if (!visit.is_activation || !to_weights) {
        run_whole(visit, std::move(inputs));
    } else if (splits && (to_activations || type_of(node).own)) {
        run_for_activations(visit, std::move(inputs));
    } else if (!to_activations) {
        leave(node, std::move(inputs));
    } else {
        if (const std::size_t layer = layer_of(node); layer > 0 && layer <= notes_.size()) {
            notes_[layer - 1].whole.insert(node.name());
        }
        run_whole(visit, std::move(inputs));
    }
}

void InputHalf::run_whole(SplitVisit& visit, Tensors inputs) {
    Node& node = *visit.node;
    const std::optional<c10::Stream> stream = stream_of(node);
    Tensors outputs = needs_engine(node) ? run_by_engine(node, std::move(inputs)) : run_node(node, std::move(inputs));
    for (std::size_t k = 0; k < outputs.size(); ++k) {
        if (node.next_edge(k).is_valid()) {
            visits_.deliver(node.next_edge(k), std::move(outputs[k]), stream);
        }
    }
}

/// Calls the node without its edges to weights, so that it computes the rest only; and leaves it with those edges only.
void InputHalf::run_for_activations(SplitVisit& visit, Tensors inputs) {
    Node& node = *visit.node;
    const std::optional<c10::Stream> stream = stream_of(node);
    edge_list& edges = node.next_edges();
    edge_list to_weights(edges.size());
    for (std::size_t k = 0; k < edges.size(); ++k) {
        if (edges[k].is_valid() && !visits_.at(edges[k]).is_activation) {
            std::swap(to_weights[k], edges[k]);
        }
    }
    Tensors outputs = node(Tensors(inputs));
    validate(node, outputs);
    std::swap(edges, to_weights);
    leave(node, std::move(inputs));
    for (std::size_t k = 0; k < outputs.size(); ++k) {
        if (Edge& edge = to_weights[k]; edge.is_valid()) {
            visits_.deliver(edge, std::move(outputs[k]), stream);
            cut_.push_back(std::move(edge.function));
        }
    }
}

/// For the second half.
void InputHalf::leave(Node& node, Tensors inputs) {
    for (std::uint32_t k = 0; k < inputs.size(); ++k) {
        if (inputs[k].defined()) {
            later_.emplace_back(node.getptr(), k);
            later_gradients_.push_back(std::move(inputs[k]));
        }
    }
    if (const std::size_t layer = layer_of(node); layer > 0 && layer <= notes_.size()) {
        notes_[layer - 1].has_weights_later = true;
    }
}

/// True if the node asks for what only the engine has, or is on a stream that is not this thread's.
bool InputHalf::needs_engine(Node& node) const {
    if (is_anomaly_mode_ || has_hooks(node) || !may_walk(node)) {
        return true;
    }
    const c10::Device device = node.device();
    if (device.is_cpu() || device.is_meta()) {
        return false;
    }
    const std::optional<c10::Stream> stream = node.stream();
    return !stream || *stream != c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// Where its results are: on the stream that is current in this thread.
std::optional<c10::Stream> InputHalf::stream_of(Node& node) const {
    const c10::Device device = node.device();
    if (device.is_cpu() || device.is_meta()) {
        return std::nullopt;
    }
    return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}
}  // namespace

void allow_walk(const std::type_info& node) {
    add_own_type(node, {.walk = true, .own = true});
}

void allow_split(const std::type_info& node) {
    add_own_type(node, {.walk = true, .split = true, .own = true});
}

bool walk_backward(const edge_list& ends, Tensors& gradients) {
    if (torch::autograd::AnomalyMode::is_enabled() || torch::autograd::get_current_graph_task_exec_info() != nullptr) {
        return false;
    }
    GraphWalk walk;
    if (!walk.find_nodes(ends)) {
        return false;
    }
    const at::AutoGradMode no_graph_of_gradients(false);
    walk.run(ends, gradients);
    return true;
}

namespace {
thread_local std::uint64_t noted_saved_tensor_hooks = 0;
}  // namespace

void note_saved_tensor_hooks() {
    ++noted_saved_tensor_hooks;
}

std::uint64_t num_saved_tensor_hooks() {
    return noted_saved_tensor_hooks;
}

void run_backward(const edge_list& ends, Tensors gradients, Runner runner) {
    if (runner == Runner::torch_engine || !walk_backward(ends, gradients)) {
        own_leaf_gradients(ends, nullptr);
        run_engine(ends, gradients);
    }
}

void run_input_half(edge_list& ends, Tensors& gradients, const Node* inputs, const LayerMarks& marks,
                    SplitNotes& notes) {
    const at::AutoGradMode no_graph_of_gradients(false);
    InputHalf(inputs, marks, notes).run(ends, gradients);
}
}  // namespace pipescope
