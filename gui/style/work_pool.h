#pragma once

class QThreadPool;

namespace pipescope {
/// Threads for work that takes longer than a frame. Qt uses its global pool to fill gradients, so the GUI thread would
/// block while our work occupies that pool.
QThreadPool& workPool();
}  // namespace pipescope
