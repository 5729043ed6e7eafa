import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { diskLevels } from '../../core/sandbox/capacity/disk-levels.ts'
import { FileReserve } from './disk-reserve.ts'

const mebibyte = 1024 * 1024

test('the reserve consists of real blocks, is given up by halves or whole, and can be restored', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'warren-reserve-'))
  try {
    const reserve = new FileReserve(folder, 4 * mebibyte)
    assert.equal(await reserve.isThere(), false)
    await reserve.giveUpHalf()
    assert.equal(await reserve.restore(), true)
    assert.ok(statSync(join(folder, 'reserve')).blocks * 512 >= 4 * mebibyte)
    assert.equal(await reserve.isThere(), true)
    assert.equal(await reserve.restore(), false)
    await reserve.giveUpHalf()
    assert.deepEqual([await reserve.isThere(), await reserve.reservedBytes()], [false, 2 * mebibyte])
    assert.equal(await reserve.restore(), true)
    await reserve.giveUp()
    await reserve.giveUp()
    assert.equal(await reserve.reservedBytes(), 0)
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('a small disk has smaller levels', () => {
  assert.equal(diskLevels(1e12, 256).reserveBytes, 256 * mebibyte)
  assert.equal(diskLevels(1024 * mebibyte, 256).reserveBytes, 64 * mebibyte)
  assert.equal(diskLevels(1024 * mebibyte, 256).startBytes, 256 * mebibyte)
})
