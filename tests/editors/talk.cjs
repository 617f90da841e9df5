// What an editor's plugin does with vscode-jsonrpc: greet, enqueue, follow, wait, cancel, fail, leave.
// Prints one JSON document of what it saw; test_node.py holds it against what must be.
'use strict'
const net = require('net')
const rpc = require(process.argv[3] + '/vscode-jsonrpc/node')

const later = { type: 'AFTER', delay_ms: 3600000 }

async function main () {
  const socket = net.createConnection(process.argv[2])
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  const connection = rpc.createMessageConnection(
    new rpc.StreamMessageReader(socket), new rpc.StreamMessageWriter(socket))
  const events = []
  connection.onNotification('event', params => events.push(...params.events))
  const seen = {}
  connection.onClose(() => { seen.closed = true })
  connection.listen()

  seen.hello = await connection.sendRequest('initialize', { processId: process.pid, capabilities: {} })
  await connection.sendNotification('initialized', {})
  seen.subscribed = await connection.sendRequest('event.subscribe', {})

  const text = 'ä€😀\u2028'
  seen.ack = await connection.sendRequest('job.enqueue', { job_type: 'semantica.echo', payload: { text } })
  seen.waited = await connection.sendRequest('job.wait', { job_id: seen.ack.job_id })
  seen.sameText = seen.waited.job.result_summary.text === text
  seen.events = events.slice()

  // Fifty at once: answers in any order find their calls.
  const many = Array.from({ length: 50 }, (_, n) =>
    connection.sendRequest('job.plan', { job_type: 'semantica.noop', user_tag: 't' + n }))
  seen.plans = (await Promise.all(many)).length

  // No arguments, in the ways a plugin says so.
  const byType = new rpc.RequestType0('admin.health')
  seen.health = [
    (await connection.sendRequest('admin.health')).status,
    (await connection.sendRequest(byType)).status,
    (await connection.sendRequest('admin.health', null)).status,
    (await connection.sendRequest('admin.health', rpc.ParameterStructures.byPosition)).status,
    (await connection.sendRequest('admin.health', {})).status
  ]

  const failed = await connection.sendRequest('job.get', { job_id: 'ffffffff' }).catch(error => error)
  seen.failed = { code: failed.code, message: failed.message, data: failed.data }

  // $/cancelRequest as the library sends it.
  const waiting = await connection.sendRequest('job.enqueue', { job_type: 'semantica.noop', schedule: later })
  const source = new rpc.CancellationTokenSource()
  const call = connection.sendRequest('job.wait', { job_id: waiting.job_id, timeout_ms: 60000 }, source.token)
    .catch(error => error)
  await connection.sendRequest('admin.health')
  source.cancel()
  seen.cancelled = (await call).code
  seen.still = (await connection.sendRequest('job.get', { job_id: waiting.job_id })).state

  const large = 'x'.repeat(3000000)
  const big = await connection.sendRequest('job.enqueue', { job_type: 'semantica.echo', payload: { large } })
  const echoed = await connection.sendRequest('job.wait', { job_id: big.job_id })
  seen.sameLarge = echoed.job.result_summary.large === large

  seen.shutdown = await connection.sendRequest('shutdown')
  const closed = new Promise(resolve => socket.once('close', resolve))
  await connection.sendNotification('exit')
  await closed
  process.stdout.write(JSON.stringify(seen))
}

main().catch(error => { console.error(error); process.exit(1) })
