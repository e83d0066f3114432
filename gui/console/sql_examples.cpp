#include "gui/console/sql_examples.h"

#include "gui/style/number_format.h"

namespace pipescope {
namespace {
std::vector<SqlExample> examples() {
    return {
        {translated("Steps"), QStringLiteral("SELECT step, start, (end - start) / 1e6 AS step_ms,\n"
                                             "       (wallEnd - wallStart) / 1e6 AS wall_ms, trainingLoss, warmup\n"
                                             "FROM PIPESCOPE_STEP")},
        {translated("Longest tasks"), QStringLiteral("SELECT id, step, kind, partition, microBatch, lane, start,\n"
                                                     "       (end - start) / 1e6 AS ms\n"
                                                     "FROM PIPESCOPE_TASK WHERE source = 'measured'\n"
                                                     "ORDER BY end - start DESC LIMIT 20")},
        {translated("Mean time per kind and partition"),
         QStringLiteral("SELECT source, kind, partition, count(*) AS tasks, avg(end - start) / 1e6 AS mean_ms\n"
                        "FROM PIPESCOPE_TASK\n"
                        "WHERE source = 'simulated' OR step NOT IN (SELECT step FROM PIPESCOPE_STEP WHERE warmup)\n"
                        "GROUP BY source, kind, partition ORDER BY source, kind, partition")},
        {translated("Pauses of a lane"),
         QStringLiteral("SELECT id, lane, step, start, pause / 1e6 AS pause_before_ms FROM (\n"
                        "  SELECT id, lane, step, start,\n"
                        "         start - lag(end) OVER (PARTITION BY lane ORDER BY start) AS pause\n"
                        "  FROM PIPESCOPE_TASK WHERE source = 'measured' AND kind NOT LIKE '%copy%')\n"
                        "WHERE pause > 0 ORDER BY pause DESC LIMIT 20")},
        {translated("Bubbles by cause"),
         QStringLiteral("SELECT source, cause, count(*) AS bubbles, sum(end - start) / 1e6 AS ms,\n"
                        "       sum(share) / count(DISTINCT step) AS share_of_step\n"
                        "FROM PIPESCOPE_BUBBLE GROUP BY source, cause ORDER BY source, ms DESC")},
        {translated("Longest bubbles of the step"),
         QStringLiteral("SELECT lane, start, (end - start) / 1e6 AS ms, cause, culprit, next\n"
                        "FROM PIPESCOPE_BUBBLE WHERE shown AND source = 'measured' ORDER BY ms DESC LIMIT 20")},
        {translated("Peak memory per lane"),
         QStringLiteral("SELECT lane, max(peak) / 1048576.0 AS peak_MiB, time, taskId\n"
                        "FROM PIPESCOPE_MEMORY GROUP BY lane")},
        {translated("Time per NVTX range"),
         QStringLiteral("SELECT coalesce(d.text, 'default') AS domain, r.text, count(*) AS ranges,\n"
                        "       sum(r.end - r.start) / 1e6 AS ms\n"
                        "FROM NVTX_EVENTS AS r\n"
                        "LEFT JOIN NVTX_EVENTS AS d ON d.eventType = 75 AND d.domainId = r.domainId\n"
                        "WHERE r.eventType = 59 GROUP BY 1, 2 ORDER BY ms DESC")},
        {translated("Device time of tasks"),
         QStringLiteral("SELECT t.id, t.kind, t.partition, t.microBatch, d.busy / 1e6 AS device_ms,\n"
                        "       d.gap / 1e6 AS gap_ms, d.launchDelay / 1e3 AS launch_delay_us\n"
                        "FROM PIPESCOPE_TASK_DEVICE AS d JOIN PIPESCOPE_TASK AS t ON t.id = d.taskId\n"
                        "ORDER BY d.busy DESC LIMIT 100")},
        {translated("Losses and degraded features"),
         QStringLiteral("SELECT severity, source, text FROM PIPESCOPE_DIAGNOSTIC UNION ALL\n"
                        "SELECT 'lost', source, dropped || ' of ' || (recorded + dropped) || ' records'\n"
                        "FROM PIPESCOPE_DROPS WHERE dropped > 0")},
        {translated("How the run was configured"), QStringLiteral("SELECT key, value FROM PIPESCOPE_RUN")},
        {translated("All tables"),
         QStringLiteral("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name")},
    };
}
}  // namespace

const std::vector<SqlExample>& sqlExamples() {
    static const std::vector<SqlExample> all = examples();
    return all;
}
}  // namespace pipescope
