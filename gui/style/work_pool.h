#pragma once

class QThreadPool;

namespace pipescope {
/// The threads for work that takes longer than a frame. Qt's global pool is no place for it: Qt itself fills gradients
/// there, so that the GUI thread stands still until a thread of that pool is free.
QThreadPool& workPool();
}  // namespace pipescope
