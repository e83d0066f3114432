#include "gui/style/work_pool.h"

#include <QThreadPool>

namespace pipescope {
QThreadPool& workPool() {
    static QThreadPool pool;
    return pool;
}
}  // namespace pipescope
