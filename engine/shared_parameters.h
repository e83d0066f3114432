#pragma once

#include "engine/layer.h"
#include "engine/partition.h"
#include "schedule/shared_routes.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

namespace pipescope {
/// Parameters that several layers use, though each layer has a tensor of its own for them (GPipeOptions::shared).
///
/// The first layer of a group holds the parameter. On each lane, the first layer that uses it has the lane's tensor:
/// on the holder's lane that is the parameter itself, on others a copy. Where the copy can have the parameter's memory,
/// it has; else it gets the values once a step, from a shared_forward. The other tensors of the lane have the memory of
/// the lane's tensor, and their gradients go into its .grad, since they have its node of the graph. At the end of a
/// step, the .grad of a copy goes to the holder's lane (shared_backward) and into the parameter's .grad (shared_sum).
/// Between steps a copy has no .grad.
/// Threading: weights() and add() on the holder's lane, receive() and take_gradients() on the user's, in the order of
/// the TaskGraph; the others while no lane runs.
class SharedParameters {
public:
    SharedParameters();
    /// Throws UsageError for keys that name no parameter, or one twice, or fewer than two. Borrows nothing.
    SharedParameters(const std::vector<std::vector<std::string>>& keys, const std::vector<ModelLayer>& layers);
    ~SharedParameters();
    SharedParameters(SharedParameters&&) noexcept;
    SharedParameters& operator=(SharedParameters&&) noexcept;

    bool empty() const noexcept { return groups_.empty(); }
    /// By group. Until list(), all train.
    const std::vector<SharedLayers>& layers() const noexcept { return layers_; }
    /// "0.weight = 5.weight, ..", equal in all processes.
    std::string text() const;

    /// Takes the layers' tensors, after `routes` and `placement` are known, or after layers have replaced some. Throws
    /// UsageError if those of a group differ in shape, type or, on one lane, device. `placement`: as the routes' own.
    void list(const std::vector<Partition>& partitions, const std::vector<SharedRoute>& routes, const Balance& balance,
              const std::vector<LaneId>& placement);
    /// The parameters here that other layers use too.
    std::vector<at::Tensor> parameters() const;
    /// The tensors here that stand for another layer's parameter.
    const std::unordered_set<const c10::TensorImpl*>& copies() const noexcept { return copies_; }

    /// Before each run that goes forward: gives the tensors the parameters' memory and requires_grad.
    void begin();
    /// Before each run that goes backward: drops gradients that a failed step has left.
    void drop_gradients();
    /// Gives copies in other memory the parameters' values.
    void refresh();
    /// By route: false if all its parameters are frozen.
    std::vector<bool> routes_train() const;

    /// The values to send by a route; undefined for copies that have the parameter's memory.
    Tensors weights(std::size_t route) const;
    /// Takes what weights() has sent. Returns the memory that the copies had before.
    Tensors receive(std::size_t route, const Tensors& weights);
    /// The gradients that the copies have collected, once; undefined if there is none.
    Tensors take_gradients(std::size_t route);
    /// Adds them to those of the parameters.
    void add(std::size_t route, Tensors gradients);

private:
    struct Use {
        LayerId layer;
        std::string key;   // "5.weight"
        std::string name;  // "weight"
    };
    struct Group;
    struct Copy;

    std::vector<std::vector<Use>> uses_;  // by group, in layer order
    std::vector<SharedLayers> layers_;
    std::vector<std::unique_ptr<Group>> groups_;
    std::vector<std::vector<Copy*>> by_route_;
    std::unordered_set<const c10::TensorImpl*> copies_;
};
}  // namespace pipescope
