// Validates the OpenRPC document on stdin against the meta-schema of OpenRPC, compiles the schemas of all params, and
// prints what the document says about some calls. usage: node validate_openrpc.cjs NODE_MODULES < document.json
const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const { MethodCallValidator, parseOpenRPCDocument } = require(join(process.argv[2], "@open-rpc/schema-utils-js"));

async function main() {
  const document = JSON.parse(readFileSync(0, "utf8"));
  const { $defs, ...parsed } = await parseOpenRPCDocument(document);
  const calls = new MethodCallValidator(parsed);
  const errors = (method, params) => calls.validate(method, params).length;
  console.log(JSON.stringify({
    good: errors("job.enqueue", { job_type: "build", queue: "code.intel", subject_key: "a.py" }),
    space: errors("job.enqueue", { job_type: "build", queue: "code intel" }),
    newline: errors("job.enqueue", { job_type: "build", queue: "default\n" }),
    nul: errors("job.enqueue", { job_type: "build", subject_key: "a\0" }),
  }));
}

main();
