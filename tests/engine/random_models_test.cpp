// Random models on random pipelines against torch's own gradients.
//
// A case follows from its seed alone. PIPESCOPE_RANDOM_SEED is the first seed (a failure names its own) and
// PIPESCOPE_RANDOM_CASES their number: 1 with a failure's seed repeats it. Left to itself the test takes 10 s at most.

#include "engine/plain_model.h"
#include "schedule/micro_batches.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/engine/random_model.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <sstream>
#include <string>

namespace pipescope {
namespace {
using namespace testing_support;
using torch::autograd::variable_list;

/// How the caller makes the pipeline's input out of leaves of its own.
struct Caller {
    Tensors leaves;
    std::function<Tensors(const Tensors& leaves)> input;
};

struct Case {
    RandomModel model;
    GPipeOptions options;
    std::int64_t batch = 1;
    bool evaluates = false;   ///< in all steps
    bool alternates = false;  ///< between training and evaluation, by chance
    std::string text;         ///< for messages
};

Case random_case(std::uint64_t seed) {
    Choice choice(seed);
    torch::manual_seed(seed);
    Case c;
    c.evaluates = choice.once_in(8);
    c.alternates = !c.evaluates && choice.once_in(6);
    c.model = random_model(choice);
    const auto layers = static_cast<int>(c.model.layers.size());
    GPipeOptions& options = c.options;
    const int partitions = choice.between(1, std::min(layers, 6));
    options.balance.assign(static_cast<std::size_t>(partitions), 1);
    for (int k = partitions; k < layers; ++k) {
        ++options.balance[static_cast<std::size_t>(choice.below(partitions))];
    }
    options.chunks = choice.between(1, 6);
    c.batch = choice.once_in(3) ? options.chunks : choice.between(1, 9);
    options.checkpoint = std::array{Checkpoint::always, Checkpoint::except_last,
                                    Checkpoint::never}[static_cast<std::size_t>(choice.below(3))];
    options.reduction = choice.once_in(2) ? Reduction::mean : Reduction::sum;
    options.seed = seed;
    options.deferred_batch_norm = c.model.normalises && !c.alternates && choice.once_in(4);
    int lanes = partitions;
    switch (choice.below(8)) {
        case 0:
        case 1: break;
        case 2: options.schedule = Schedule::one_f_one_b; break;
        case 6:
        case 7: options.schedule = Schedule::zero_bubble_h1; break;
        case 3:
            options.driver = Driver::autograd;
            options.autograd.dependency = !choice.once_in(4);
            options.autograd.portals = !choice.once_in(3);
            break;
        case 4:
            if (partitions % 2 == 0) {
                lanes = partitions / 2;
                options.schedule = Schedule::interleaved_1f1b;
                options.chunks = lanes * choice.between(1, 2);
                c.batch = options.chunks + choice.below(3);
            }
            break;
        case 5:
            lanes = choice.between(1, partitions);
            for (int j = 0; j < partitions; ++j) {
                options.placement.push_back(j < lanes ? j : choice.below(lanes));
            }
            break;
    }
    options.devices = cpus(static_cast<std::size_t>(lanes));
    options.host_cores = choice.once_in(4) ? 1 : lanes;
    std::ostringstream text;
    text << "seed " << seed << ": balance " << to_string(Balance(options.balance)) << " on " << lanes << " lanes, "
         << to_string(options.schedule) << (options.driver == Driver::autograd ? ", autograd" : "") << ", "
         << to_string(options.checkpoint) << ", chunks " << options.chunks << ", batch " << c.batch
         << (c.evaluates    ? ", eval"
             : c.alternates ? ", train and eval"
                            : "")
         << (options.deferred_batch_norm ? ", deferred batch norm" : "");
    c.text = text.str();
    return c;
}

Caller random_caller(Choice& choice, const RandomModel& model, std::int64_t batch) {
    Caller caller;
    const auto leaf = [&](at::IntArrayRef shape) {
        caller.leaves.push_back(torch::randn(shape, torch::kFloat64).set_requires_grad(!choice.once_in(5)));
    };
    const int how = choice.below(7);
    leaf(how == 4 ? at::IntArrayRef{1, 3, 3} : at::IntArrayRef{batch, 3, 3});
    leaf(how == 2 ? at::IntArrayRef{3, 3} : at::IntArrayRef{batch, 3, 3});
    const int second = choice.below(3);
    const at::Tensor index = torch::randint(2, {batch}, torch::kLong);
    // Torch would refuse to change the leaves; what was computed from them, the model may change.
    const bool is_fresh = (how == 2 || how == 6) && (model.inputs.size() == 1 || model.inputs[1] == Kind::index);
    const bool clones = model.changes_inputs && !is_fresh;
    caller.input = [=, kinds = model.inputs](const Tensors& leaves) {
        Tensors input;
        switch (how) {
            case 2: input.push_back(leaves[0] + leaves[1].unsqueeze(0)); break;
            case 3: input.push_back(leaves[0].transpose(1, 2)); break;
            case 4: input.push_back(leaves[0].expand({batch, 3, 3})); break;
            case 5: input.push_back(leaves[0].view({batch, 9}).view({batch, 3, 3})); break;
            case 6: input.push_back(leaves[0].detach() * 1.5); break;
            default: input.push_back(leaves[0]);
        }
        if (kinds[0] == Kind::index) {
            input[0] = index;
        }
        if (kinds.size() > 1 && kinds[1] == Kind::index) {
            input.push_back(index);
        } else if (kinds.size() > 1) {
            input.push_back(kinds[0] == Kind::index || how == 2 ? leaves[0].detach().expand({batch, 3, 3}) * 2
                            : second == 0                       ? input[0]
                            : second == 1                       ? leaves[1]
                                                                : input[0].detach() * 2);
        }
        if (clones) {
            std::transform(input.begin(), input.end(), input.begin(),
                           [](const at::Tensor& each) { return each.clone(); });
        }
        return input;
    };
    return caller;
}

/// What is summed over the outputs; each sample's and each micro-batch's part counts for itself.
using Weigh = std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)>;
struct Loss {
    at::Tensor leaf = torch::randn({3, 3}, torch::kFloat64).requires_grad_();  ///< of the loss function
    Weigh of_matrices;

    explicit Loss(Choice& choice) {
        switch (choice.below(5)) {
            case 0: of_matrices = [](const at::Tensor& x, const at::Tensor& t) { return (x * t).sum(); }; break;
            case 1: of_matrices = [](const at::Tensor& x, const at::Tensor& t) { return (x - t).pow(2).sum(); }; break;
            case 2: of_matrices = [](const at::Tensor& x, const at::Tensor&) { return x.sum(); }; break;
            case 3: of_matrices = [](const at::Tensor& x, const at::Tensor&) { return x.select(1, 0).sum(); }; break;
            case 4:
                of_matrices = [c = leaf](const at::Tensor& x, const at::Tensor& t) {
                    return (torch::tanh(x + c.unsqueeze(0)) * t).sum();
                };
                break;
        }
    }
    at::Tensor operator()(const Tensors& outputs, const Tensors& targets) const {
        at::Tensor sum = torch::zeros({}, torch::kFloat64);
        for (const at::Tensor& output : outputs) {
            if (output.dim() == 3) {
                sum = sum + of_matrices(output, targets[0]);
            } else if (output.is_floating_point()) {
                sum = sum + output.sum() * 0.5;
            }
        }
        return sum;
    }
};

/// The mini-batch's loss by the plain model's gathered outputs, put together as the schedule and the options say.
at::Tensor plain_loss(const Case& c, const Loss& loss, const Tensors& outputs, const at::Tensor& target) {
    if (c.options.schedule == Schedule::gpipe) {
        return loss(outputs, {target});
    }
    const std::vector<std::int64_t> sizes = micro_batch_sizes(c.batch, c.options.chunks);
    at::Tensor sum = torch::zeros({}, torch::kFloat64);
    std::int64_t start = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        Tensors own;
        for (std::size_t k = 0; k < outputs.size(); ++k) {
            if (c.model.outputs[k] == Kind::auxiliary) {
                const std::int64_t size = outputs[k].size(0) / static_cast<std::int64_t>(sizes.size());
                own.push_back(outputs[k].narrow(0, static_cast<std::int64_t>(i) * size, size));
            } else {
                own.push_back(outputs[k].narrow(0, start, sizes[i]));
            }
        }
        const double weight =
            c.options.reduction == Reduction::mean ? static_cast<double>(sizes[i]) / static_cast<double>(c.batch) : 1;
        sum = sum + loss(own, {target.narrow(0, start, sizes[i])}) * weight;
        start += sizes[i];
    }
    return sum;
}

/// Of the outputs, as the caller would pass them to backward().
Tensors output_gradients(Choice& choice, const Tensors& outputs) {
    Tensors gradients;
    for (const at::Tensor& output : outputs) {
        const bool repeats = !gradients.empty() && gradients[0].sizes() == output.sizes() && choice.once_in(3);
        switch (repeats ? -1 : choice.below(3)) {
            case -1: gradients.push_back(gradients[0]); break;
            case 0: gradients.push_back(torch::randn({1}, torch::kFloat64).expand(output.sizes())); break;
            case 1:
                if (output.dim() == 3) {
                    gradients.push_back(torch::randn(output.sizes(), torch::kFloat64).transpose(1, 2));
                    break;
                }
                [[fallthrough]];
            default: gradients.push_back(torch::randn(output.sizes(), torch::kFloat64));
        }
    }
    return gradients;
}

bool are_close(const at::Tensor& actual, const at::Tensor& expected) {
    const at::Tensor zero = torch::zeros({}, torch::kFloat64);
    const at::Tensor a = actual.defined() ? actual.to_dense() : zero;
    const at::Tensor b = expected.defined() ? expected.to_dense() : zero;
    return (a - b).abs().max().item<double>() <= 1e-9 * (1 + b.abs().max().item<double>());
}

/// What must stay as it is, whatever the pipeline does next.
class Bystanders {
public:
    void watch(std::string name, const at::Tensor& tensor) {
        if (tensor.defined()) {
            watched_.push_back({std::move(name), tensor.detach(), tensor.detach().clone()});
        }
    }
    void forget(const std::string& name) {
        std::erase_if(watched_, [&name](const Watched& each) { return each.name == name; });
    }
    void expect_unchanged() const {
        for (const auto& each : watched_) {
            EXPECT_TRUE(torch::equal(each.tensor, each.before)) << each.name << " was changed";
        }
    }

private:
    struct Watched {
        std::string name;
        at::Tensor tensor;
        at::Tensor before;
    };
    std::vector<Watched> watched_;
};

/// Gradients of some leaves, added up.
class Expected {
public:
    explicit Expected(Tensors leaves) : leaves_(std::move(leaves)), sums_(leaves_.size()) {}

    /// `gradients` belong to `of`, some of the leaves.
    void add(const Tensors& of, const variable_list& gradients) {
        for (std::size_t k = 0; k < leaves_.size(); ++k) {
            const auto found =
                std::find_if(of.begin(), of.end(), [&](const at::Tensor& each) { return each.is_same(leaves_[k]); });
            const auto place = static_cast<std::size_t>(found - of.begin());
            if (found != of.end() && gradients[place].defined()) {
                const at::Tensor dense = gradients[place].to_dense();
                sums_[k] = sums_[k].defined() ? sums_[k] + dense : dense;
            }
        }
    }
    void clear() { sums_.assign(leaves_.size(), at::Tensor()); }
    const Tensors& leaves() const { return leaves_; }
    void expect(const std::string& what) const {
        for (std::size_t k = 0; k < leaves_.size(); ++k) {
            EXPECT_TRUE(are_close(leaves_[k].grad(), sums_[k])) << "the gradient of " << what << " " << k << " is\n"
                                                                << leaves_[k].grad() << "\nand must be\n"
                                                                << sums_[k];
        }
    }

private:
    Tensors leaves_;
    Tensors sums_;
};

Tensors that_require(const Tensors& tensors) {
    Tensors those;
    std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(those),
                 [](const at::Tensor& tensor) { return tensor.requires_grad(); });
    return those;
}

enum class Outcome { compared, refused, senseless };

/// One mini-batch: what the caller has, and what must come of it.
struct Round {
    Caller caller;
    at::Tensor target;
    Tensors wanted = {};     ///< leaves that get a gradient
    Tensors gradients = {};  ///< of the outputs
    Tensors outputs = {};
    variable_list expected = {};  ///< gradients of those wanted
    double loss = 0;
};

class Comparison {
public:
    Comparison(Case c, std::uint64_t seed)
        : case_(std::move(c)),
          choice_(seed + 1'000'003),
          plain_(case_.model.layers, {.chunks = case_.options.chunks, .seed = case_.options.seed}),
          pipe_(case_.model.layers, case_.options),
          loss_(choice_),
          parameters_(case_.model.parameters) {}

    Outcome run() {
        const int steps = choice_.between(1, 3);
        for (int k = 0; k < steps; ++k) {
            const Outcome outcome = step();
            if (outcome != Outcome::compared || ::testing::Test::HasFailure()) {
                return outcome;
            }
            clear_some_gradients();
            change_some_parameters();
        }
        return Outcome::compared;
    }
    const std::string& refusal() const { return refusal_; }

private:
    Outcome step() {
        const bool trains = !case_.evaluates && (!case_.alternates || choice_.once_in(2));
        pipe_.train(trains);
        plain_.train(trains);
        if (!case_.model.draws || !trains) {
            compare_values();
        }
        const bool steps_inside =
            needs_loss_inside(case_.options.schedule) ? trains || choice_.once_in(2) : choice_.once_in(2);
        plain_.set_next_step(pipe_.next_step());
        std::vector<Round> rounds;
        for (int count = !steps_inside && choice_.once_in(5) ? 2 : 1; count > 0; --count) {
            rounds.push_back(
                {random_caller(choice_, case_.model, case_.batch), torch::randn({case_.batch, 3, 3}, torch::kFloat64)});
            try {
                run_plain(rounds.back(), steps_inside);
            } catch (const c10::Error& error) {
                if (!case_.model.changes_inputs) {
                    ADD_FAILURE() << "torch refuses the model: " << error.what_without_backtrace();
                }
                return Outcome::senseless;
            }
            if (rounds.back().expected.empty()) {
                return Outcome::senseless;
            }
        }
        for (const Round& round : rounds) {
            watch(round);
        }
        try {
            steps_inside ? step_pipeline(rounds.front()) : run_pipeline(rounds);
        } catch (const EngineError& error) {
            if (!case_.model.changes_inputs) {
                ADD_FAILURE() << "the pipeline refuses the model: " << error.what();
            }
            refusal_ = error.what();
            return Outcome::refused;
        } catch (const c10::Error& error) {
            if (!case_.model.changes_inputs) {
                ADD_FAILURE() << error.what_without_backtrace();
            }
            refusal_ = error.what_without_backtrace();
            return Outcome::refused;
        }
        compare(rounds, steps_inside);
        return Outcome::compared;
    }

    /// A forward without gradients, which is no step.
    void compare_values() {
        if (case_.model.changes_inputs || !choice_.once_in(4)) {  // torch may refuse such a model
            return;
        }
        const at::NoGradGuard no_grad;
        const Caller caller = random_caller(choice_, case_.model, case_.batch);
        const auto input = [&] {
            Tensors own = caller.input(caller.leaves);
            std::transform(own.begin(), own.end(), own.begin(), [](const at::Tensor& each) { return each.clone(); });
            return own;
        };
        const Tensors expected = plain_.forward(input());
        const Tensors outputs = pipe_.forward(input());
        ASSERT_EQ(outputs.size(), expected.size());
        for (std::size_t k = 0; k < outputs.size(); ++k) {
            EXPECT_TRUE(torch::allclose(outputs[k], expected[k])) << "output " << k << " without gradients";
            EXPECT_FALSE(outputs[k].requires_grad());
        }
    }

    void run_plain(Round& round, bool steps_inside) {
        round.wanted = that_require(round.caller.leaves);
        const Tensors trained = that_require(case_.model.parameters);
        round.wanted.insert(round.wanted.end(), trained.begin(), trained.end());
        if (steps_inside) {
            round.wanted.push_back(loss_.leaf);
        }
        const Tensors outputs = plain_.forward(round.caller.input(round.caller.leaves));
        round.gradients = output_gradients(choice_, outputs);
        for (const at::Tensor& output : outputs) {
            round.outputs.push_back(output.detach().clone());
        }
        if (!round.wanted.empty()) {
            round.expected = plain_gradients(round, steps_inside, outputs);
        }
    }

    void watch(const Round& round) {
        for (const at::Tensor& gradient : round.gradients) {
            bystanders_.watch("a gradient of the caller's", gradient);
        }
        for (const at::Tensor& leaf : round.caller.leaves) {
            bystanders_.watch("a leaf of the caller's", leaf);
        }
        for (const at::Tensor& parameter : case_.model.parameters) {
            bystanders_.watch("a parameter", parameter);
        }
    }

    void compare(const std::vector<Round>& rounds, bool steps_inside) {
        for (const Round& round : rounds) {
            Expected leaves(that_require(round.caller.leaves));
            for (int k = 0; k < num_backwards_; ++k) {
                leaves.add(round.wanted, round.expected);
                parameters_.add(round.wanted, round.expected);
            }
            leaves.expect("the caller's leaf");
        }
        parameters_.expect("parameter");
        if (steps_inside) {
            EXPECT_TRUE(are_close(loss_.leaf.grad(), rounds.front().expected.back()))
                << "the gradient of the loss's own leaf";
            loss_.leaf.mutable_grad() = at::Tensor();
        }
        if (!case_.options.deferred_batch_norm) {
            const NamedTensors expected = plain_.named_buffers();
            const NamedTensors buffers = pipe_.named_buffers();
            ASSERT_EQ(buffers.size(), expected.size());
            for (std::size_t k = 0; k < buffers.size(); ++k) {
                EXPECT_TRUE(are_close(buffers[k].second, expected[k].second)) << "buffer " << buffers[k].first;
            }
        }
        bystanders_.expect_unchanged();
        for (const Round& round : rounds) {
            for (const at::Tensor& leaf : round.caller.leaves) {
                bystanders_.watch("the gradient of an earlier step's leaf", leaf.grad());
            }
        }
    }

    /// Empty where there is nothing to go backward from.
    variable_list plain_gradients(Round& round, bool steps_inside, const Tensors& outputs) {
        variable_list ends, end_gradients;
        if (steps_inside) {
            const at::Tensor loss = plain_loss(case_, loss_, outputs, round.target);
            if (that_require(outputs).empty() || !loss.requires_grad()) {
                return {};
            }
            round.loss = loss.item<double>();
            ends.push_back(loss);
            end_gradients.push_back(torch::ones_like(loss));
        } else {
            find_ends(outputs, round.gradients, ends, end_gradients);
        }
        return ends.empty() ? variable_list{}
                            : torch::autograd::grad(ends, round.wanted, end_gradients, std::nullopt, false, true);
    }

    static void find_ends(const Tensors& outputs, const Tensors& gradients, variable_list& ends,
                          variable_list& end_gradients) {
        for (std::size_t k = 0; k < outputs.size(); ++k) {
            if (outputs[k].requires_grad()) {
                ends.push_back(outputs[k]);
                end_gradients.push_back(gradients[k]);
            }
        }
    }

    void step_pipeline(const Round& round) {
        num_backwards_ = 1;
        const at::Tensor value = pipe_.step(round.caller.input(round.caller.leaves), {round.target},
                                            [this](const Tensors& o, const Tensors& t) { return loss_(o, t); });
        EXPECT_NEAR(value.item<double>(), round.loss, 1e-9 * (1 + std::abs(round.loss)));
    }

    /// All forwards, then all backwards, in either order.
    void run_pipeline(const std::vector<Round>& rounds) {
        struct Ends {
            variable_list outputs;
            variable_list gradients;
        };
        std::vector<Ends> ends(rounds.size());
        for (std::size_t r = 0; r < rounds.size(); ++r) {
            const Tensors outputs = pipe_.forward(rounds[r].caller.input(rounds[r].caller.leaves));
            ASSERT_EQ(outputs.size(), rounds[r].outputs.size());
            for (std::size_t k = 0; k < outputs.size(); ++k) {
                EXPECT_TRUE(torch::allclose(outputs[k], rounds[r].outputs[k])) << "output " << k;
                bystanders_.watch("an output", outputs[k]);
            }
            find_ends(outputs, rounds[r].gradients, ends[r].outputs, ends[r].gradients);
        }
        if (choice_.once_in(2)) {
            std::reverse(ends.begin(), ends.end());
        }
        num_backwards_ = 1;
        const bool keeps_graph = choice_.once_in(6);
        for (const Ends& each : ends) {
            torch::autograd::backward(each.outputs, each.gradients, keeps_graph);
        }
        if (keeps_graph && choice_.once_in(2)) {
            go_backward_again(ends.front().outputs, ends.front().gradients, ends.size());
        }
    }

    /// Where nothing was checkpointed, the paper's driver leaves the graph to torch.
    void go_backward_again(const variable_list& ends, const variable_list& gradients, std::size_t num_rounds) {
        if (num_rounds > 1) {
            return;
        }
        if (case_.options.driver == Driver::autograd && case_.options.checkpoint == Checkpoint::never) {
            torch::autograd::backward(ends, gradients);
            num_backwards_ = 2;
            return;
        }
        if (case_.options.driver == Driver::scheduled) {
            EXPECT_THROW(torch::autograd::backward(ends, gradients), EngineError);
        }
    }

    void clear_some_gradients() {
        const int how = choice_.below(3);
        if (how == 0) {
            pipe_.zero_grad();
        } else if (how == 1) {
            for (const at::Tensor& parameter : case_.model.parameters) {
                parameter.mutable_grad() = at::Tensor();
            }
        }
        if (how < 2) {
            parameters_.clear();
        }
    }

    /// As an optimizer does, and who freezes a part of the model.
    void change_some_parameters() {
        const at::NoGradGuard no_grad;
        if (choice_.once_in(2)) {
            bystanders_.forget("a parameter");
            bystanders_.forget("an output");  // a parameter may be one
            for (at::Tensor parameter : case_.model.parameters) {
                if (parameter.grad().defined()) {
                    parameter.add_(parameter.grad().to_dense(), -0.01);
                }
            }
        }
        if (!case_.model.parameters.empty() && choice_.once_in(4)) {
            const auto which = choice_.below(static_cast<int>(case_.model.parameters.size()));
            const at::Tensor& parameter = case_.model.parameters[static_cast<std::size_t>(which)];
            parameter.set_requires_grad(!parameter.requires_grad());
        }
    }

    Case case_;
    Choice choice_;
    PlainModel plain_;
    GPipe pipe_;
    Loss loss_;
    Expected parameters_;
    Bystanders bystanders_;
    int num_backwards_ = 1;  // through each round's output
    std::string refusal_;
};

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
    const char* const text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(RandomModels, HaveTorchsGradientsOnEveryPipeline) {
    const std::uint64_t first = number_from("PIPESCOPE_RANDOM_SEED", 1);
    const bool asked = std::getenv("PIPESCOPE_RANDOM_CASES") != nullptr;
    const std::uint64_t count = number_from("PIPESCOPE_RANDOM_CASES", 1000);
    const auto start = std::chrono::steady_clock::now();
    int compared = 0, refused = 0, senseless = 0;
    for (std::uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
        const bool are_enough = compared >= 20 && std::chrono::steady_clock::now() - start > std::chrono::seconds(10);
        if (!asked && are_enough) {
            break;
        }
        Case c = random_case(seed);
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, c.text);
        try {
            Comparison comparison(std::move(c), seed);
            switch (comparison.run()) {
                case Outcome::compared: ++compared; break;
                case Outcome::refused:
                    ++refused;
                    if (asked) {
                        std::cout << "seed " << seed << " refused: " << comparison.refusal() << '\n';
                    }
                    break;
                case Outcome::senseless: ++senseless; break;
            }
        } catch (const std::exception& error) {
            ADD_FAILURE() << error.what();
        }
    }
    RecordProperty("compared", compared);
    RecordProperty("refused", refused);
    RecordProperty("senseless", senseless);
    if (!asked) {
        EXPECT_GE(compared, 20);
        EXPECT_LT(refused, compared / 2) << "most models run";
    }
    std::cout << compared << " compared, " << refused << " refused, " << senseless << " without a gradient\n";
}
}  // namespace
}  // namespace pipescope
