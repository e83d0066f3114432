#include "engine/autograd_driver/backward_span.h"

#include "engine/lanes/task_span.h"
#include "engine/torch_internals.h"
#include "engine/tsan_annotations.h"

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

namespace pipescope {
namespace {
struct OpenSpan {
    OpenSpan(const TaskKey& key, LaneId lane, TaskObserver* observer, std::shared_ptr<std::atomic<bool>> failed)
        : span(key, lane, false, observer), backward_failed(std::move(failed)) {}

    TaskSpan span;
    std::shared_ptr<std::atomic<bool>> backward_failed;
};

std::optional<OpenSpan>& open_span() {
    thread_local std::optional<OpenSpan> span;
    return span;
}

/// Held by the callback for the end of a backward, and so by the engine's graph task, which ends with the backward. The
/// engine does not call callbacks of a backward that fails.
class BackwardEnd {
public:
    explicit BackwardEnd(std::shared_ptr<std::atomic<bool>> failed) : failed_(std::move(failed)) {}
    /// Closes the span that a failed backward left open. One of another thread is closed by the next one there.
    ~BackwardEnd() {
        *failed_ = !reached_;
        if (open_span() && open_span()->backward_failed == failed_) {
            open_span().reset();
        }
    }
    BackwardEnd(const BackwardEnd&) = delete;
    BackwardEnd& operator=(const BackwardEnd&) = delete;

    void reach() {
        reached_ = true;
        close_backward_span();
    }

private:
    std::shared_ptr<std::atomic<bool>> failed_;
    bool reached_ = false;
};

/// The callback. Autograd's thread of a device makes and calls it, and the thread that called backward() destroys it,
/// after both.
class CallAtEnd {
public:
    explicit CallAtEnd(std::shared_ptr<BackwardEnd> end) : end_(std::move(end)) { tsan_release(this); }
    CallAtEnd(const CallAtEnd& other) : end_(other.end_) { tsan_release(this); }
    CallAtEnd& operator=(const CallAtEnd&) = delete;
    ~CallAtEnd() { tsan_acquire(this); }

    void operator()() const {
        end_->reach();
        tsan_release(this);
    }

private:
    std::shared_ptr<BackwardEnd> end_;
};
}  // namespace

void open_backward_span(const TaskKey& key, LaneId lane, TaskObserver* observer) {
    close_backward_span();
    auto failed = std::make_shared<std::atomic<bool>>(false);
    auto end = std::make_shared<BackwardEnd>(failed);
    open_span().emplace(key, lane, observer, std::move(failed));
    torch::autograd::Engine::get_default_engine().queue_callback(CallAtEnd(std::move(end)));
}

void close_backward_span() {
    std::optional<OpenSpan>& open = open_span();
    if (open && *open->backward_failed) {
        open->span.forget_observer();  // its model may be gone
    }
    open.reset();
}
}  // namespace pipescope
