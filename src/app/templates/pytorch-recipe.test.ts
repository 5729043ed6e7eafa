import assert from 'node:assert/strict'
import { test } from 'node:test'
import { codeInterpreterRecipe } from './code-interpreter-recipe.ts'
import { pytorchRecipe } from './pytorch-recipe.ts'

test('PyTorch is the code interpreter and one step more, so that what is in the cache is not built again', async () => {
  const { steps, startCmd, readyCmd } = await pytorchRecipe(10_240, true).request({ full: false })
  const interpreter = await codeInterpreterRecipe(10_240).request({ full: false })
  assert.deepEqual(steps.slice(0, interpreter.steps.length), interpreter.steps)
  assert.deepEqual([startCmd, readyCmd], [interpreter.startCmd, interpreter.readyCmd])
  assert.match(steps[interpreter.steps.length]!.args[0]!, /^pip install .* torch$/)
})

test('its sandboxes have a GPU where sandboxes can have one, and whoever adds it is told its size and what it does without', () => {
  const [withGpu, without] = [pytorchRecipe(10_240, true), pytorchRecipe(10_240, false)]
  assert.deepEqual([withGpu.sizes.gpuCount, without.sizes.gpuCount], [1, 0])
  assert.match(withGpu.note!, /GB of disk/)
  assert.doesNotMatch(withGpu.note!, /CPUs/)
  assert.match(without.note!, /no GPU here .* compute on CPUs/)
  assert.equal(pytorchRecipe(50_000, true).sizes.diskMB, 50_000)
})
