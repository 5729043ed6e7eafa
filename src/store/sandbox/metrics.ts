import type { Kysely } from 'kysely'
import type { SandboxMetric } from '../../core/sandbox/monitoring/metric.ts'
import type { MetricStore } from '../../core/sandbox/monitoring/metric-store.ts'
import type { SandboxMetricRow, Tables } from '../database/tables.ts'

/** Limits the number of bound values of one insert to what either engine takes. */
const rowsPerInsert = 500

export class SqlMetricStore implements MetricStore {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async append(samples: readonly SandboxMetric[]): Promise<void> {
    for (let at = 0; at < samples.length; at += rowsPerInsert) {
      const rows = samples.slice(at, at + rowsPerInsert).map(rowOf)
      const insert = this.#db.insertInto('sandbox_metrics').values(rows)
      await insert.onConflict((conflict) => conflict.doNothing()).execute()
    }
  }

  async range(sandboxID: string, from: number, to: number): Promise<SandboxMetric[]> {
    const rows = await this.#db
      .selectFrom('sandbox_metrics')
      .selectAll()
      .where('sandbox_id', '=', sandboxID)
      .where('at', '>=', from)
      .where('at', '<=', to)
      .orderBy('at')
      .execute()
    return rows.map(metricOf)
  }

  async latest(sandboxIDs: readonly string[]): Promise<SandboxMetric[]> {
    if (sandboxIDs.length === 0) return []
    const rows = await this.#db
      .selectFrom('sandbox_metrics as sample')
      .selectAll()
      .where('sandbox_id', 'in', sandboxIDs)
      .where('at', '=', (query) =>
        query
          .selectFrom('sandbox_metrics as newest')
          .select(({ fn }) => fn.max('newest.at').as('at'))
          .whereRef('newest.sandbox_id', '=', 'sample.sandbox_id'),
      )
      .execute()
    return rows.map(metricOf)
  }

  async prune(before: number): Promise<void> {
    await this.#db.deleteFrom('sandbox_metrics').where('at', '<', before).execute()
  }
}

function rowOf(metric: SandboxMetric): SandboxMetricRow {
  return {
    sandbox_id: metric.sandboxID,
    at: metric.at,
    cpu_count: metric.cpuCount,
    cpu_used_pct: metric.cpuUsedPct,
    memory_used_bytes: metric.memoryUsedBytes,
    memory_cache_bytes: metric.memoryCacheBytes,
    memory_total_bytes: metric.memoryTotalBytes,
    disk_used_bytes: metric.diskUsedBytes,
    disk_total_bytes: metric.diskTotalBytes,
    gpu_busy_pct: metric.gpu?.busyPct ?? null,
    gpu_memory_used_bytes: metric.gpu?.memoryUsedBytes ?? null,
    gpu_memory_total_bytes: metric.gpu?.memoryTotalBytes ?? null,
  }
}

function metricOf(row: SandboxMetricRow): SandboxMetric {
  return {
    sandboxID: row.sandbox_id,
    at: row.at,
    cpuCount: row.cpu_count,
    cpuUsedPct: row.cpu_used_pct,
    memoryUsedBytes: row.memory_used_bytes,
    memoryCacheBytes: row.memory_cache_bytes,
    memoryTotalBytes: row.memory_total_bytes,
    diskUsedBytes: row.disk_used_bytes,
    diskTotalBytes: row.disk_total_bytes,
    ...gpuOf(row),
  }
}

function gpuOf(row: SandboxMetricRow): Pick<SandboxMetric, 'gpu'> {
  const { gpu_busy_pct: busyPct, gpu_memory_used_bytes: used, gpu_memory_total_bytes: total } = row
  if (busyPct === null || used === null || total === null) return {}
  return { gpu: { busyPct, memoryUsedBytes: used, memoryTotalBytes: total } }
}
