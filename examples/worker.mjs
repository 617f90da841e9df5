// A worker to copy: claims EXTERNAL jobs and runs the command of each. It needs nothing but Node.
//
//   semantica add --external -- make test
//   node worker.mjs [NAME [TYPE ...]]

import { spawn } from "node:child_process";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const { env } = process;
const home = env.SEMANTICA_HOME ?? `${env.XDG_RUNTIME_DIR ?? "/tmp"}/semantica`;
const socketPath = env.SEMANTICA_SOCKET ?? `${home}/daemon.sock`;
const [name = "worker", ...types] = process.argv.slice(2);
const leaseMs = Number(env.LEASE_MS ?? 30000);
const running = new Map(); // the process of each run
const waiting = new Map(); // the calls that wait for a reply, by id
let socket, lastId = 0, stopping = false;

function open() {
  socket = connect(socketPath).on("error", () => {}).on("close", () => {
    socket = undefined;
    for (const resolve of waiting.values()) resolve({ error: { code: 5002 } });
  });
  createInterface(socket).on("line", (line) => waiting.get(JSON.parse(line).id)?.(JSON.parse(line))).on("error", () => {});
}

// A call that the end of the daemon cuts short is sent again. Calls share the connection: replies come in any order.
async function call(method, params) {
  for (;;) {
    if (!socket) open();
    const id = ++lastId;
    const reply = await new Promise((resolve) => {
      waiting.set(id, resolve);
      socket.write(JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\n");
    });
    waiting.delete(id);
    if (reply.result) return reply.result;
    if (reply.error.code < 5000) throw new Error(`${method}: ${reply.error.message}`);
    await sleep(500);
  }
}

async function heartbeat() {
  const answer = await call("worker.heartbeat", { worker_id, run_ids: [...running.keys()] });
  for (const runId of [...answer.cancel, ...answer.lost]) running.get(runId)?.kill();
}

function run(runId, payload, variables) {
  return new Promise((resolve) => {
    const child = spawn(payload.argv[0], payload.argv.slice(1), { cwd: payload.cwd, env: { ...env, ...variables } });
    let output = "";
    running.set(runId, child);
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (output = (output + text).slice(-4000)));
    child.on("error", (error) => resolve({ message: `it cannot be started: ${error.message}`, class: "permanent" }));
    child.on("close", (code) => resolve(code === 0 ? { result: { output } } : { message: output, exit_code: code }));
  });
}

async function work({ run_id, job, env_vars }) {
  const end = await run(run_id, job.payload, env_vars);
  running.delete(run_id);
  await call("result" in end ? "worker.complete" : "worker.fail", { worker_id, run_id, ...end })
    .catch((refused) => console.error(refused.message)); // the lease was lost: another run may do the work
}

const { worker_id } = await call("worker.register", { name, pid: process.pid });
const timer = setInterval(() => heartbeat().catch((refused) => console.error(refused.message)), leaseMs / 3);
process.on("SIGTERM", () => (stopping = true)); // it ends after the job that it works on
const wanted = { job_types: types.length ? types : null, lease_ms: leaseMs, wait_ms: 2000 };
while (!stopping) {
  for (const claimed of (await call("worker.claim", { worker_id, ...wanted })).jobs) await work(claimed);
}
await call("worker.leave", { worker_id });
clearInterval(timer);
socket.end();
