#include "gui/document/document_loader.h"
#include "gui/document/trace_follower.h"
#include "gui/window/main_window.h"

#include <QPointer>

namespace pipescope {
void MainWindow::followIfLive(DocumentPage& page) {
    if (page.live() != DocumentPage::Live::no || !isBeingWritten(page.path())) {
        return;
    }
    page.setLive(DocumentPage::Live::following);
    auto* follower = new TraceFollower(page.path(), &page);
    const auto growing = std::make_shared<GrowingTrace>(page.path());
    connect(follower, &TraceFollower::grown, this, [this, follower, growing, of = QPointer(&page)] {
        if (of) {
            load(*of, follower->ended() ? nullptr : growing);  // resumes the follower once it is shown
        }
    });
    connect(follower, &TraceFollower::finished, &page, [follower, of = QPointer(&page)] {
        if (of) {
            of->setLive(DocumentPage::Live::ended);
        }
        follower->deleteLater();
    });
}

void MainWindow::resumeFollowing(DocumentPage& page) {
    if (auto* follower = page.findChild<TraceFollower*>()) {
        follower->resume();
    }
}
}  // namespace pipescope
