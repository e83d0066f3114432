// Compares random models on random pipelines with torch's own gradients.
//
// A case follows from its seed alone. PIPESCOPE_RANDOM_SEED is the first seed (a failure names its own) and
// PIPESCOPE_RANDOM_CASES their number: 1 with a failure's seed repeats it. Left to itself the test takes 30 s at most.

#include "engine/reference.h"
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

/// The caller's construction of the pipeline's input from its own leaves.
struct Caller {
    Tensors leaves;
    std::function<Tensors(const Tensors& leaves)> input;
};

struct Case {
    RandomModel model;
    GPipeOptions options;
    std::int64_t batch = 1;
    bool evaluates = false;
    std::string text;  ///< for messages
};

Case random_case(std::uint64_t seed) {
    Choice choice(seed);
    torch::manual_seed(seed);
    Case c;
    c.evaluates = choice.once_in(8);
    c.model = random_model(choice, !c.evaluates);
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
    int lanes = partitions;
    switch (choice.below(6)) {
        case 0:
        case 1: break;
        case 2: options.schedule = Schedule::one_f_one_b; break;
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
         << (c.evaluates ? ", eval" : "");
    c.text = text.str();
    return c;
}

Caller random_caller(Choice& choice, const RandomModel& model, std::int64_t batch) {
    Caller caller;
    const auto leaf = [&](at::IntArrayRef shape) {
        caller.leaves.push_back(torch::randn(shape, torch::kFloat64).set_requires_grad(!choice.once_in(5)));
    };
    const int how = choice.below(6);
    leaf(how == 4 ? at::IntArrayRef{1, 3, 3} : at::IntArrayRef{batch, 3, 3});
    leaf(how == 2 ? at::IntArrayRef{3, 3} : at::IntArrayRef{batch, 3, 3});
    const int second = choice.below(3);
    const at::Tensor index = torch::randint(2, {batch}, torch::kLong);
    const bool clones = model.changes_inputs;  // torch would refuse to change the leaves
    caller.input = [=, kinds = model.inputs](const Tensors& leaves) {
        Tensors input;
        switch (how) {
            case 2: input.push_back(leaves[0] + leaves[1].unsqueeze(0)); break;
            case 3: input.push_back(leaves[0].transpose(1, 2)); break;
            case 4: input.push_back(leaves[0].expand({batch, 3, 3})); break;
            case 5: input.push_back(leaves[0].view({batch, 9}).view({batch, 3, 3})); break;
            default: input.push_back(leaves[0]);
        }
        if (kinds.size() > 1 && kinds[1] == Kind::index) {
            input.push_back(index);
        } else if (kinds.size() > 1) {
            input.push_back(second == 0 || how == 2 ? input[0] : second == 1 ? leaves[1] : input[0].detach() * 2);
        }
        if (clones) {
            std::transform(input.begin(), input.end(), input.begin(),
                           [](const at::Tensor& each) { return each.clone(); });
        }
        return input;
    };
    return caller;
}

/// The sum over the outputs. Each sample's and each micro-batch's part counts separately.
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

/// The plain model's loss of a mini-batch from its gathered outputs, combined as the schedule and options require.
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

/// Gradients of the outputs, as the caller would pass them to backward().
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

/// Tensors that the pipeline must not change.
class Bystanders {
public:
    void watch(std::string name, const at::Tensor& tensor) {
        if (tensor.defined()) {
            watched_.push_back({std::move(name), tensor.detach(), tensor.detach().clone()});
        }
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

/// Accumulated gradients of some leaves.
class Expected {
public:
    explicit Expected(Tensors leaves) : leaves_(std::move(leaves)), sums_(leaves_.size()) {}

    void add(const variable_list& gradients) {
        for (std::size_t k = 0; k < leaves_.size(); ++k) {
            if (gradients[k].defined()) {
                const at::Tensor dense = gradients[k].to_dense();
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

class Comparison {
public:
    Comparison(Case c, std::uint64_t seed)
        : case_(std::move(c)),
          choice_(seed + 1'000'003),
          plain_(case_.model.layers, {.chunks = case_.options.chunks, .seed = case_.options.seed}),
          pipe_(case_.model.layers, case_.options),
          loss_(choice_),
          parameters_(that_require(case_.model.parameters)) {
        pipe_.train(!case_.evaluates);
    }

    Outcome run() {
        const int steps = choice_.between(1, 3);
        for (int k = 0; k < steps; ++k) {
            const Outcome outcome = step();
            if (outcome != Outcome::compared || ::testing::Test::HasFailure()) {
                return outcome;
            }
            clear_some_gradients();
        }
        return Outcome::compared;
    }

private:
    Outcome step() {
        caller_ = random_caller(choice_, case_.model, case_.batch);
        const at::Tensor target = torch::randn({case_.batch, 3, 3}, torch::kFloat64);
        const bool steps_inside =
            needs_loss_inside(case_.options.schedule) ? !case_.evaluates || choice_.once_in(2) : choice_.once_in(2);
        Tensors wanted = that_require(caller_.leaves);
        const std::size_t num_leaves = wanted.size();
        wanted.insert(wanted.end(), parameters_.leaves().begin(), parameters_.leaves().end());
        if (steps_inside) {
            wanted.push_back(loss_.leaf);
        }
        if (wanted.empty()) {
            return Outcome::senseless;
        }
        Tensors expected_outputs, gradients;
        variable_list expected;
        try {
            const Tensors outputs = plain_.forward(caller_.input(caller_.leaves));
            gradients = output_gradients(choice_, outputs);
            for (const at::Tensor& output : outputs) {
                expected_outputs.push_back(output.detach().clone());
            }
            expected = plain_gradients(steps_inside, outputs, target, gradients, wanted);
        } catch (const c10::Error& error) {
            if (!case_.model.changes_inputs) {
                ADD_FAILURE() << "torch refuses the model: " << error.what_without_backtrace();
            }
            return Outcome::senseless;
        }
        if (expected.empty()) {
            return Outcome::senseless;
        }
        const auto first_parameter = expected.begin() + static_cast<std::ptrdiff_t>(num_leaves);
        Expected leaves(that_require(caller_.leaves));
        leaves.add({expected.begin(), first_parameter});
        parameters_.add({first_parameter, expected.end()});
        for (const at::Tensor& gradient : gradients) {
            bystanders_.watch("a gradient of the caller's", gradient);
        }
        for (const at::Tensor& leaf : caller_.leaves) {
            bystanders_.watch("a leaf of the caller's", leaf);
        }
        for (const at::Tensor& parameter : case_.model.parameters) {
            bystanders_.watch("a parameter", parameter);
        }
        try {
            run_pipeline(steps_inside, target, gradients, expected_outputs);
        } catch (const EngineError& error) {
            if (!case_.model.changes_inputs) {
                ADD_FAILURE() << "the pipeline refuses the model: " << error.what();
            }
            return Outcome::refused;
        } catch (const c10::Error& error) {
            if (!case_.model.changes_inputs) {
                ADD_FAILURE() << error.what_without_backtrace();
            }
            return Outcome::refused;
        }
        leaves.expect("the caller's leaf");
        parameters_.expect("parameter");
        if (steps_inside) {
            EXPECT_TRUE(are_close(loss_.leaf.grad(), expected.back())) << "the gradient of the loss's own leaf";
            loss_.leaf.mutable_grad() = at::Tensor();
        }
        bystanders_.expect_unchanged();
        for (const at::Tensor& leaf : caller_.leaves) {
            bystanders_.watch("the gradient of an earlier step's leaf", leaf.grad());
        }
        return Outcome::compared;
    }

    /// Empty if there is nothing to go backward from.
    variable_list plain_gradients(bool steps_inside, const Tensors& outputs, const at::Tensor& target,
                                  const Tensors& gradients, const Tensors& wanted) {
        variable_list ends, end_gradients;
        if (steps_inside) {
            bool any = false;
            for (const at::Tensor& output : outputs) {
                any = any || output.requires_grad();
            }
            const at::Tensor loss = plain_loss(case_, loss_, outputs, target);
            if (!any || !loss.requires_grad()) {
                return {};
            }
            expected_loss_ = loss.item<double>();
            ends.push_back(loss);
            end_gradients.push_back(torch::ones_like(loss));
        } else {
            for (std::size_t k = 0; k < outputs.size(); ++k) {
                if (outputs[k].requires_grad()) {
                    ends.push_back(outputs[k]);
                    end_gradients.push_back(gradients[k]);
                }
            }
        }
        return ends.empty() ? variable_list{}
                            : torch::autograd::grad(ends, wanted, end_gradients, std::nullopt, false, true);
    }

    void run_pipeline(bool steps_inside, const at::Tensor& target, const Tensors& gradients,
                      const Tensors& expected_outputs) {
        const Tensors input = caller_.input(caller_.leaves);
        if (steps_inside) {
            const at::Tensor value =
                pipe_.step(input, {target}, [this](const Tensors& o, const Tensors& t) { return loss_(o, t); });
            EXPECT_NEAR(value.item<double>(), expected_loss_, 1e-9 * (1 + std::abs(expected_loss_)));
            return;
        }
        const Tensors outputs = pipe_.forward(input);
        ASSERT_EQ(outputs.size(), expected_outputs.size());
        Tensors ends, end_gradients;
        for (std::size_t k = 0; k < outputs.size(); ++k) {
            EXPECT_TRUE(torch::allclose(outputs[k], expected_outputs[k])) << "output " << k;
            bystanders_.watch("an output", outputs[k]);
            if (outputs[k].requires_grad()) {
                ends.push_back(outputs[k]);
                end_gradients.push_back(gradients[k]);
            }
        }
        torch::autograd::backward(ends, end_gradients);
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

    Case case_;
    Choice choice_;
    PlainModel plain_;
    GPipe pipe_;
    Loss loss_;
    Expected parameters_;
    Caller caller_;
    Bystanders bystanders_;
    double expected_loss_ = 0;
};

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
    const char* const text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(RandomModels, HaveTorchsGradientsOnEveryPipeline) {
    const std::uint64_t first = number_from("PIPESCOPE_RANDOM_SEED", 1);
    const bool asked = std::getenv("PIPESCOPE_RANDOM_CASES") != nullptr;
    const std::uint64_t count = number_from("PIPESCOPE_RANDOM_CASES", 3000);
    const auto start = std::chrono::steady_clock::now();
    int compared = 0, refused = 0, senseless = 0;
    for (std::uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
        if (!asked && std::chrono::steady_clock::now() - start > std::chrono::seconds(30)) {
            break;  // a busy machine: those so far will do
        }
        Case c = random_case(seed);
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, c.text);
        try {
            switch (Comparison(std::move(c), seed).run()) {
                case Outcome::compared: ++compared; break;
                case Outcome::refused: ++refused; break;
                case Outcome::senseless: ++senseless; break;
            }
        } catch (const std::exception& error) {
            ADD_FAILURE() << error.what();
        }
    }
    RecordProperty("compared", compared);
    RecordProperty("refused", refused);
    RecordProperty("senseless", senseless);
    std::cout << compared << " compared, " << refused << " refused, " << senseless << " without a gradient\n";
}
}  // namespace
}  // namespace pipescope
