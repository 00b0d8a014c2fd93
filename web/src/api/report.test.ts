import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseReport } from './report.ts';

test('times beyond 2^53 are exact after they were made relative', () => {
  const report = parseReport(
    `{"verdict": {"text": "says \\"start_ns\\": 1764000000000000001, and more",
      "evidence": {"start_ns": 1764000000000000003, "end_ns": 1764000000000000010}},
      "criticality": null, "predictions": null,
      "findings": [{"kind": "polling", "evidence": {"start_ns": 0, "end_ns": 0}},
        {"kind": "lost", "evidence": {"start_ns": 1764000000000000001,
                                      "end_ns": 1764000000000000002}}]}`,
    '1764000000000000000',
  );
  assert.deepEqual(report.evidence, { begin: 3, end: 10 });
  assert.equal(report.findings[0].evidence, null);
  assert.deepEqual(report.findings[1].evidence, { begin: 1, end: 2 });
  assert.match(report.verdict.text, /1764000000000000001/);
  assert.deepEqual(report.criticality, []);
});
