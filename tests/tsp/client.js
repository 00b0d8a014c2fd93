/*
 * Asks a trace server with tsp-typescript-client, the client of VS Code and Theia.
 *
 * usage: client.js ADDRESS TRACE probe|kernel
 *
 * The first part calls everything that the client offers, and checks that the client understands
 * each answer: it yields no model if a number is too large, a text is where a number belongs, or the
 * content type is another. The second part sends the requests of the VS Code viewer in its order.
 */
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { HttpTspClient } = require('tsp-typescript-client/lib/protocol/http-tsp-client');
const { QueryHelper } = require('tsp-typescript-client/lib/models/query/query-helper');

const [address, trace, kind] = process.argv.slice(2);
const SAMPLES = 1000;

const called = new Set();
const client = new Proxy(new HttpTspClient(address), {
	get(target, name) {
		if (typeof target[name] === 'function') {
			called.add(name);
		}
		return target[name].bind(target);
	},
});

/** The model of an answer, which must be one of success. */
function model(answer) {
	assert.ok(answer.isOk(), `${answer.getStatusCode()}: ${answer.getText()}`);
	assert.notEqual(answer.getModel(), undefined, `the client does not understand: ${answer.getText().slice(0, 500)}`);
	return answer.getModel();
}

/** The model of a complete answer with a status. */
function complete(answer) {
	const { model: inner, status } = model(answer);
	assert.equal(status, 'COMPLETED', answer.getText().slice(0, 500));
	assert.notEqual(inner, undefined);
	return inner;
}

function refused(answer, status) {
	assert.equal(answer.getStatusCode(), status, answer.getText());
	assert.ok(answer.getErrorResponse().title.length > 0);
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function indexed(uuid) {
	for (;;) {
		const experiment = model(await client.fetchExperiment(uuid));
		if (experiment.indexingStatus !== 'RUNNING') {
			assert.equal(experiment.indexingStatus, 'COMPLETED', JSON.stringify(experiment.traces[0].properties));
			return experiment;
		}
		await pause(50);
	}
}

/** Checks the entries of a tree: numbers are unique, and parents exist. */
function checkTree({ headers, entries }) {
	const ids = new Set(entries.map((entry) => entry.id));
	assert.equal(ids.size, entries.length);
	for (const { id, parentId, labels } of entries) {
		assert.ok(Number.isSafeInteger(id) && (parentId === -1 || ids.has(parentId)), `${id} ${parentId}`);
		assert.equal(labels.length, headers.length);
		assert.ok(labels.every((label) => typeof label === 'string'));
	}
	return entries;
}

async function everything() {
	assert.equal(model(await client.checkHealth()).status, 'UP');
	assert.equal(model(await client.fetchIdentifier()).tspVersion, '0.6.0');

	const opened = model(await client.openTrace(QueryHelper.query({ name: 'first', uri: trace })));
	const again = model(await client.openTrace(QueryHelper.query({ name: 'second', uri: trace })));
	assert.equal(again.UUID, opened.UUID);
	refused(await client.openTrace(QueryHelper.query({ name: 'other', uri: '/etc' })), 403);
	refused(await client.openTrace(QueryHelper.query({ name: 'missing', uri: `${trace}/missing` })), 404);
	refused(await client.openTrace(QueryHelper.query({ name: 'text', uri: path.join(path.dirname(trace), 'text') })), 406);
	assert.deepEqual(model(await client.fetchTraces()).map((one) => one.UUID), [opened.UUID]);

	const { UUID: e } = model(await client.createExperiment(QueryHelper.query({ name: 'all', traces: [opened.UUID] })));
	refused(await client.updateExperiment(e, QueryHelper.query({ name: 'other' })), 404);
	const experiment = await indexed(e);
	assert.deepEqual(model(await client.fetchExperiments()).map((one) => one.UUID), [e]);
	assert.deepEqual(model(await client.fetchTrace(opened.UUID)), experiment.traces[0]);
	const { start, end } = experiment;
	assert.equal(typeof start, 'bigint');
	assert.ok(start > 1_000_000_000_000_000_000n && end > start);
	assert.ok(experiment.nbEvents > 0);

	const outputs = model(await client.experimentOutputs(e));
	assert.equal(outputs.length, 13);
	for (const { id } of outputs) {
		assert.ok(Array.isArray(complete(await client.fetchAnnotationsCategories(e, id)).annotationCategories));
		assert.ok(Object.keys(complete(await client.fetchStyles(e, id, QueryHelper.query())).styles).length >= 8);
		assert.deepEqual(model(await client.fetchOutputConfigurationTypes(e, id)), []);
		refused(await client.fetchOutputConfigurationType(e, id, 'none'), 404);
		refused(await client.createDerivedOutput(e, id, QueryHelper.outputConfigurationQuery('n', '', 'none', {})), 400);
		refused(await client.deleteDerivedOutput(e, id, 'none'), 404);
	}
	assert.deepEqual(complete(await client.fetchMarkerSets(e)), []);

	const counts = {};
	for (const { id } of outputs.filter((output) => output.type === 'TIME_GRAPH')) {
		counts[id] = await timeGraph(e, id, start, end);
	}
	const onPath = counts['longpole.critical-path'];
	assert.ok(onPath.states > 10, JSON.stringify(counts));
	// The lane of the path, and the rows that it passes through. A worker that never waits may be
	// the only one.
	assert.ok(onPath.rows >= 2 && onPath.arrows > 0 === onPath.rows > 2, JSON.stringify(counts));
	assert.ok(counts['longpole.threads'].states > 10, JSON.stringify(counts));
	if (kind === 'kernel') {
		assert.ok(counts['longpole.cpus'].states > 10 && counts['longpole.interrupts'].states > 10, JSON.stringify(counts));
	}

	for (const { id } of outputs.filter((output) => output.type === 'TREE_TIME_XY')) {
		await xy(e, id, start, end);
	}
	const shares = checkTree(complete(await client.fetchGenericXYTree(e, 'longpole.path-shares', QueryHelper.query())));
	const query = QueryHelper.selectionTimeRangeQuery(start, end, SAMPLES, shares.map((entry) => entry.id), {}, true);
	const [categories] = complete(await client.fetchGenericXY(e, 'longpole.path-shares', query)).series;
	assert.equal(categories.xCategories.length, categories.yValues.length);
	assert.ok(Math.abs(categories.yValues.reduce((a, b) => a + b, 0) - 100) < 0.01);

	const whole = checkTree(complete(await client.fetchDataTree(e, 'longpole.statistics', QueryHelper.query())));
	const middle = (start + end) / 2n;
	const half = checkTree(complete(await client.fetchDataTree(e, 'longpole.statistics', QueryHelper.timeRangeQuery(start, middle))));
	const total = (entries) => entries.reduce((sum, entry) => sum + Number(entry.labels[2] || 0), 0);
	assert.ok(total(whole) > total(half) && total(half) > 0);

	await table(e, 'longpole.path-table');
	await table(e, 'longpole.events');

	assert.deepEqual(model(await client.fetchConfigurationSourceTypes()), []);
	refused(await client.fetchConfigurationSourceType('none'), 404);
	refused(await client.fetchConfigurations('none'), 404);
	refused(await client.fetchConfiguration('none', 'none'), 404);
	refused(await client.createConfiguration('none', QueryHelper.configurationQuery('n', '', {})), 404);
	refused(await client.updateConfiguration('none', 'none', QueryHelper.configurationQuery('n', '', {})), 404);
	refused(await client.deleteConfiguration('none', 'none'), 404);

	refused(await client.deleteTrace(opened.UUID), 409);
	assert.equal(model(await client.deleteExperiment(e)).UUID, e);
	refused(await client.deleteTrace(opened.UUID, true), 403);
	assert.equal(model(await client.deleteTrace(opened.UUID)).UUID, opened.UUID);
	refused(await client.fetchTrace(opened.UUID), 404);
	assert.ok(fs.existsSync(trace));

	const offered = Object.getOwnPropertyNames(HttpTspClient.prototype).filter((name) => name !== 'constructor');
	assert.deepEqual(offered.filter((name) => !called.has(name)), []);
}

async function timeGraph(e, id, start, end) {
	const entries = checkTree(complete(await client.fetchTimeGraphTree(e, id, QueryHelper.timeRangeQuery(start, end))));
	const ids = entries.map((entry) => entry.id);
	assert.ok(entries.every((entry) => entry.start === start && entry.end === end));
	const query = QueryHelper.selectionTimeRangeQuery(start, end, SAMPLES, ids);
	const { rows } = complete(await client.fetchTimeGraphStates(e, id, query));
	const { styles } = complete(await client.fetchStyles(e, id, QueryHelper.query()));
	let states = 0;
	for (const row of rows) {
		assert.ok(row.states.length <= SAMPLES);
		let last = 0n;
		for (const state of row.states) {
			assert.ok(last <= state.start && state.start < state.end, `${row.entryId} ${last} ${state.start} ${state.end}`);
			assert.ok(styles[state.style.parentKey], state.style.parentKey);
			last = state.end;
		}
		states += row.states.length;
	}
	const arrows = complete(await client.fetchTimeGraphArrows(e, id, QueryHelper.timeRangeQuery(start, end, SAMPLES)));
	assert.ok(arrows.every((arrow) => ids.includes(arrow.sourceId) && ids.includes(arrow.targetId) && arrow.start <= arrow.end));
	const { annotations } = complete(await client.fetchAnnotations(e, id, query));
	assert.deepEqual(Object.keys(annotations).sort(), ['Findings', 'Lost events', 'Verdict']);
	const row = rows.find((one) => one.states.length > 0);
	if (row) {
		const [{ start: time, end: until }] = row.states;
		const element = { elementType: 'state', time, duration: until - time };
		const tooltip = complete(await client.fetchTimeGraphTooltip(e, id, QueryHelper.selectionTimeQuery([time], [row.entryId], { requested_element: element })));
		assert.ok(tooltip.Row && tooltip.Duration, JSON.stringify(tooltip));
	}
	return { rows: rows.length, states, arrows: arrows.length };
}

async function xy(e, id, start, end) {
	const entries = checkTree(complete(await client.fetchXYTree(e, id, QueryHelper.timeRangeQuery(start, end))));
	const query = QueryHelper.selectionTimeRangeQuery(start, end, SAMPLES, entries.map((entry) => entry.id));
	const { series, title } = complete(await client.fetchXY(e, id, query));
	assert.ok(title.length > 0);
	assert.equal(series.length, entries.filter((entry) => entry.hasData).length);
	for (const { seriesId, xValues, yValues } of series) {
		assert.ok(xValues.length > 0 && xValues.length === yValues.length && xValues.length <= SAMPLES);
		assert.ok(xValues.every((x) => typeof x === 'bigint'));
		assert.ok(yValues.every((y) => y >= 0 && (id !== 'longpole.cpu-usage' || y < 100.001)), `${seriesId}`);
	}
	// Queues and counters come from probes, the usage of CPUs from the kernel.
	const shown = { probe: ['longpole.queues'], kernel: ['longpole.cpu-usage'] };
	if (id === 'longpole.running' || shown[kind]?.includes(id)) {
		assert.ok(series.length > 0 && series.some(({ yValues }) => yValues.some((y) => y > 0)), id);
	}
	const text = model(await client.fetchXYToolTip(e, id, Number(start), 1, entries.length > 0 ? String(entries[0].id) : undefined));
	assert.ok(text.model.Time.endsWith(' ns'));
}

async function table(e, id) {
	const columns = complete(await client.fetchTableColumns(e, id, QueryHelper.query()));
	assert.equal(columns[0].name, 'Timestamp ns');
	const ids = columns.map((column) => column.id);
	const page = complete(await client.fetchTableLines(e, id, QueryHelper.tableQuery(ids, 0, 10)));
	assert.ok(page.size >= 10 && page.lines.length === 10);
	assert.ok(page.lines.every((line, at) => line.index === at && line.cells.length === ids.length));
	const cells = page.lines[5].cells.map((cell) => cell.content);
	const [time] = cells;
	// The state of a segment, or the name of an event.
	const searched = id === 'longpole.events' ? 1 : 3;
	const query = QueryHelper.timeQuery([BigInt(time)], { requested_table_count: 1, requested_table_column_ids: ids });
	// Several events may have the same time.
	const [first] = complete(await client.fetchTableLines(e, id, query)).lines;
	assert.ok(first.index <= 5 && first.cells[0].content === time, `${id} ${first.index}`);
	const pattern = cells[searched].replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
	const search = { table_search_expressions: { [searched]: `^${pattern}$` }, table_search_direction: 'NEXT' };
	const [found] = complete(await client.fetchTableLines(e, id, QueryHelper.tableQuery(ids, 0, 1, search))).lines;
	assert.deepEqual([found.cells[searched].content, found.tags], [cells[searched], 8]);
	search.table_search_direction = 'PREVIOUS';
	const [before] = complete(await client.fetchTableLines(e, id, QueryHelper.tableQuery(ids, page.size - 1, 1, search))).lines;
	assert.ok(before.index >= found.index);
}

/** The directories with a file `metadata`, which the viewer opens as a trace each. */
function directories(folder) {
	const entries = fs.readdirSync(folder, { withFileTypes: true });
	const below = entries.filter((entry) => entry.isDirectory()).flatMap((entry) => directories(path.join(folder, entry.name)));
	return entries.some((entry) => entry.name === 'metadata') ? [folder, ...below] : below;
}

async function vsCode() {
	// The extension is activated, and each of its views asks whether the server runs.
	assert.equal(model(await client.checkHealth()).status, 'UP');
	model(await client.fetchExperiments());
	assert.equal(model(await client.checkHealth()).status, 'UP');
	// "Open with Trace Viewer" on a directory.
	const folders = directories(trace);
	assert.ok(folders.length > 0);
	const uuids = [];
	for (const uri of folders) {
		uuids.push(model(await client.openTrace(QueryHelper.query({ name: path.basename(uri), uri }))).UUID);
	}
	assert.equal(new Set(uuids).size, 1, 'the parts of a recording are opened as the whole');
	const created = model(await client.createExperiment(QueryHelper.query({ name: path.basename(trace), traces: uuids })));
	const e = created.UUID;
	// The panel.
	complete(await client.fetchMarkerSets(e));
	const { start, end } = await indexed(e);
	for (const { id, type } of model(await client.experimentOutputs(e))) {
		if (type === 'TIME_GRAPH') {
			const { entries } = complete(await client.fetchTimeGraphTree(e, id, QueryHelper.timeRangeQuery(start, end)));
			const { annotationCategories } = complete(await client.fetchAnnotationsCategories(e, id));
			complete(await client.fetchStyles(e, id, QueryHelper.query()));
			// Zooming in at the middle.
			for (let from = start, to = end; to - from > 1000n; from += (to - from) / 4n, to -= (to - from) / 3n) {
				const ids = entries.map((entry) => entry.id);
				const query = QueryHelper.selectionTimeRangeQuery(from, to, SAMPLES, ids);
				const marked = QueryHelper.selectionTimeRangeQuery(from, to, SAMPLES, ids, { requested_marker_categories: annotationCategories });
				const [states, annotations] = await Promise.all([client.fetchTimeGraphStates(e, id, query), client.fetchAnnotations(e, id, marked)]);
				assert.ok(complete(states).rows.every((row) => row.states.length <= SAMPLES));
				complete(annotations);
				complete(await client.fetchTimeGraphArrows(e, id, QueryHelper.timeRangeQuery(from, to, SAMPLES)));
			}
		} else if (type === 'TREE_TIME_XY') {
			await xy(e, id, start, end);
		} else if (type === 'TABLE') {
			await table(e, id);
		} else if (type === 'DATA_TREE') {
			complete(await client.fetchDataTree(e, id, QueryHelper.timeRangeQuery(start, end)));
		}
	}
	model(await client.deleteExperiment(e));
	model(await client.deleteTrace(uuids[0]));
}

everything()
	.then(vsCode)
	.then(() => console.log(`${path.basename(trace)}: the client understands every answer`))
	.catch((error) => {
		console.error(error);
		process.exit(1);
	});
