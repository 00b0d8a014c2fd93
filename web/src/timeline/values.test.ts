import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatNumber, formatValue, placeOf, valueAt } from './values.ts';

const QUEUE = { min: 0, max: 300, unit: 'items', capacity: 512 };

test('whole values of a tile are exact', () => {
  for (let value = 0; value <= 300; value++) {
    assert.equal(valueAt(QUEUE, placeOf(QUEUE, value)), value);
  }
});

test('the scale of a row contains zero, and negative values', () => {
  const facts = { min: -2.5, max: -1.5, unit: null, capacity: null };
  assert.equal(placeOf(facts, 0), 65_535);
  assert.equal(placeOf(facts, -2.5), 0);
  assert.ok(Math.abs(valueAt(facts, placeOf(facts, -1.7)) + 1.7) < 1e-4);
  assert.equal(placeOf({ ...facts, min: 0, max: 0 }, 0), 0);
});

test('a value has its unit and the capacity', () => {
  assert.equal(formatValue(12, QUEUE), '12 of 512 items');
  assert.equal(formatValue(1234567, { ...QUEUE, unit: null, capacity: null }), '1,234,567');
  assert.equal(formatNumber(0.123456), '0.1235');
  assert.equal(formatNumber(123456.7), '123,457');
  assert.equal(formatNumber(1.5e-9), '1.500e-9');
});
