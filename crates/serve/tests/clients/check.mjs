// The official openai package for Node against a real server: node check.mjs http://127.0.0.1:PORT/v1
import assert from "node:assert/strict";
import OpenAI from "openai";

const base = process.argv[2];
const client = new OpenAI({ baseURL: base, apiKey: "none", maxRetries: 0 });
const easy = [{ role: "user", content: "What is 888 * 27 + 271?" }];
const hard = [{ role: "user", content: "Using each of 5, 8, 30, 43, 28 exactly once, make 68." }];
const chat = (messages, more) => client.chat.completions.create({ model: "acorn", messages, ...more });
const texts = (answer) => answer.choices.map((choice) => choice.message.content);

async function metric(name) {
  const page = await (await fetch(base.replace(/\/v1$/, "/metrics"))).text();
  return Number(page.split("\n").find((line) => line.startsWith(name + " ")).split(" ")[1]);
}

const checks = {
  async models() {
    assert.deepEqual((await client.models.list()).data.map((model) => model.id), ["acorn"]);
  },
  async chat() {
    const answer = await chat(easy, { temperature: 0 });
    assert.match(answer.choices[0].message.content, /\\boxed\{24247\}$/);
    assert.equal(answer.choices[0].finish_reason, "stop");
  },
  async completion() {
    const answer = await client.completions.create({ model: "acorn", prompt: "1+1=", max_tokens: 8 });
    assert.equal(answer.choices[0].finish_reason, "length");
    assert.equal(answer.usage.completion_tokens, 8);
  },
  async streaming() {
    const whole = await chat(hard, { n: 8, seed: 3 });
    const heard = [];
    for await (const chunk of await chat(hard, { n: 8, seed: 3, stream: true })) {
      for (const choice of chunk.choices) {
        heard[choice.index] = (heard[choice.index] ?? "") + (choice.delta.content ?? "");
      }
    }
    assert.deepEqual(heard, texts(whole));
    // The package's own way of putting a stream together.
    const runner = client.chat.completions.stream({ model: "acorn", messages: easy, temperature: 0 });
    assert.match(await runner.finalContent(), /24247/);
  },
  async n() {
    const answer = await chat(hard, { n: 8, seed: 3, eager: {} });
    assert.ok(answer.choices.length > 1 && answer.choices.length <= 8);
    assert.ok(answer.eager.tokens_decoded < answer.eager.tokens_full_parallel);
  },
  async stop() {
    const whole = texts(await chat(easy, { temperature: 0 }))[0];
    const answer = await chat(easy, { temperature: 0, stop: ["</think>"] });
    assert.equal(texts(answer)[0], whole.slice(0, whole.indexOf("</think>")));
  },
  async seed() {
    const ask = (seed) => chat(hard, { n: 4, seed }).then(texts);
    assert.deepEqual(await ask(11), await ask(11));
    assert.notDeepEqual(await ask(11), await ask(12));
  },
  async logprobs() {
    const [choice] = (await chat(easy, { logprobs: true, top_logprobs: 3, temperature: 0 })).choices;
    assert.equal(choice.logprobs.content.map((token) => token.token).join(""), choice.message.content);
    assert.ok(choice.logprobs.content.every((token) => token.top_logprobs.length === 3));
  },
  async sampling() {
    const ask = (seed) => chat(hard, { seed, temperature: 1.5, max_tokens: 40, top_k: 1 }).then(texts);
    assert.deepEqual(await ask(1), await ask(2));
    const shared = await chat(hard, { n: 8, seed: 3, eager: {} });
    assert.ok(shared.eager.saved >= shared.eager.shared);
  },
  async errors() {
    await assert.rejects(chat(easy, { n: 1e9 }), OpenAI.BadRequestError);
    await assert.rejects(chat([], {}), OpenAI.BadRequestError);
    await assert.rejects(client.models.retrieve("nothing"), OpenAI.NotFoundError);
  },
  async cancel() {
    const more = { n: 64, stream: true, temperature: 1.5, eager: { method: "full-parallel" } };
    const stream = await chat(hard, more);
    let seen = 0;
    for await (const _ of stream) {
      if (++seen === 200) stream.controller.abort();
    }
    const deadline = Date.now() + 5000;
    while ((await metric("eager_prompts_growing")) > 0) {
      assert.ok(Date.now() < deadline, "the server decodes for nobody");
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  },
};

for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log("node openai", name, "ok");
}
