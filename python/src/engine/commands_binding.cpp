#include "base/error.h"
#include "cli/torch/python_models.h"
#include "cli/torch/torch_program.h"
#include "python/src/engine/python_model.h"
#include "python/src/engine/python_spec.h"

#include <signal.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pipescope::python {
namespace {
/// While it lives, Ctrl-C ends the process at once, although a command would end after its next step: the user's code
/// may load or download for minutes, and nothing is written yet.
class EndsAtOnce {
public:
    EndsAtOnce() {
        for (std::size_t k = 0; k < kSignals.size(); ++k) {
            sigaction(kSignals[k], nullptr, &before_[k]);
            if (before_[k].sa_handler != SIG_IGN) {
                struct sigaction at_once {};
                at_once.sa_handler = SIG_DFL;
                sigaction(kSignals[k], &at_once, nullptr);
            }
        }
    }
    ~EndsAtOnce() {
        for (std::size_t k = 0; k < kSignals.size(); ++k) {
            sigaction(kSignals[k], &before_[k], nullptr);
        }
    }
    EndsAtOnce(const EndsAtOnce&) = delete;
    EndsAtOnce& operator=(const EndsAtOnce&) = delete;

private:
    static constexpr std::array kSignals = {SIGINT, SIGTERM};
    std::array<struct sigaction, 2> before_{};
};

/// An optimizer of Python over a lane's parameters.
class PythonOptimizer final : public torch::optim::Optimizer {
public:
    PythonOptimizer(std::vector<at::Tensor> parameters, Object optimizer)
        : Optimizer(std::move(parameters), std::make_unique<torch::optim::SGDOptions>(0)),
          optimizer_(std::move(optimizer)) {}

    at::Tensor step(LossClosure /*closure*/) override {
        const WithGil gil;
        py::handle(optimizer_.get()).attr("step")();
        return {};
    }

private:
    Object optimizer_;
};

MakeOptimizer maker_from(const py::object& function) {
    if (function.is_none()) {
        return {};
    }
    return [make = share(function.ptr())](std::vector<at::Tensor> parameters) {
        const WithGil gil;
        const py::object made = py::handle(make.get())(parameters);
        return std::make_shared<PythonOptimizer>(std::move(parameters), share(made.ptr()));
    };
}

std::function<double(const Tensors&)> weight_from(const py::object& function) {
    if (function.is_none()) {
        return {};
    }
    return [weight = share(function.ptr())](const Tensors& target) {
        const WithGil gil;
        const auto parts = py::reinterpret_steal<py::object>(give_tensors(target, {Structure::Kind::tuple}));
        return py::handle(weight.get())(parts).cast<double>();
    };
}

/// The models of _commands._Models: make(model, use) returns one, explain(exception) whether the request was wrong,
/// and a message, after the exception's traceback is printed.
class Models final : public PythonModels {
public:
    Models(const py::function& make, const py::function& explain)
        : make_(share(make.ptr())), explain_(share(explain.ptr())) {}

    CommandModel make(const std::string& model, const ModelUse& use) override {
        const EndsAtOnce ends_at_once;
        const WithGil gil;
        py::dict given;
        given["trains"] = use.trains;
        given["on_meta"] = use.on_meta;
        given["dtype"] = use.dtype;
        given["batch_from"] = py::bytes(use.batch_from);
        given["seed"] = use.seed;
        given["samples"] = use.samples;
        const py::object made = py::handle(make_.get())(py::bytes(model), given);
        const auto function = [&](const char* name) { return share(py::object(made.attr(name)).ptr()); };
        const std::size_t micro_batches = use.trains ? use.samples.size() : 1;
        return {.spec = spec_of(model, made.attr("described"),
                                {function("layer"), function("make_batch"), function("loss")}, micro_batches),
                .split = split_from(made.attr("split")),
                .weight = weight_from(made.attr("weight")),
                .on_exception = keep_python_error,
                .shared = shared_from(made.attr("shared")),
                .makes_meta_batches = use.on_meta,
                .make_optimizer = maker_from(made.attr("optimizer")),
                .optimizer = made.attr("optimizer_name").cast<std::string>(),
                .learning_rate = made.attr("learning_rate").cast<double>()};
    }

    void rethrow() override {
        try {
            throw;
        } catch (const py::error_already_set& error) {
            const WithGil gil;
            explain(error.value());
        } catch (python_error& error) {
            const WithGil gil;
            error.restore();
            const py::error_already_set taken;
            explain(taken.value());
        }
        // All others have left.
    }

private:
    [[noreturn]] void explain(const py::object& exception) {
        const auto answer = py::reinterpret_borrow<py::tuple>(py::handle(explain_.get())(exception));
        const auto text = answer[1].cast<std::string>();
        if (answer[0].cast<bool>()) {
            throw UsageError(text);
        }
        throw Error(text);
    }

    Object make_;
    Object explain_;
};

int run_commands(const std::vector<std::string>& words, const py::function& make, const py::function& explain) {
    Models models(make, explain);
    std::vector<const char*> argv;
    for (const std::string& word : words) {
        argv.push_back(word.c_str());
    }
    const WithoutGil gil;
    prepare_torch();
    return run_pipescope_torch(static_cast<int>(argv.size()), argv.data(), &models);
}
}  // namespace

void bind_commands(py::module_& module) {
    module.def("run_commands", &run_commands);
}
}  // namespace pipescope::python
