//! Names of generated functions, as runtimes write them.

use crate::table::{clean, Function};

/// Kinds of code in the lists of Node: functions of scripts, and code of the runtime itself.
const NODE: [&str; 5] = ["JS:", "LazyCompile:", "Function:", "Script:", "Eval:"];
const NODE_RUNTIME: [&str; 4] = ["Builtin:", "BytecodeHandler:", "Stub:", "RegExp:"];

/// Returns a name of Node without the kind of code.
fn of_node(name: &str) -> Option<&str> {
    NODE.iter().find_map(|kind| name.strip_prefix(kind))
}

/// Returns whether a name is one of Node's first compiler, whose sign is `^`.
pub fn is_baseline(name: &str) -> bool {
    of_node(name).is_some_and(|rest| rest.starts_with('^'))
}

/// Returns a name of Node without kind and sign; other names are unchanged.
pub fn without_compiler(name: &str) -> &str {
    of_node(name).unwrap_or(name).trim_start_matches(['*', '^', '~', '+'])
}

/// Returns function, file and line in a name of Node.
pub fn script(name: &str) -> Option<(&str, &str, u32)> {
    of_node(name)?;
    let rest = without_compiler(name);
    let (rest, _column) = rest.rsplit_once(':')?;
    let (rest, line) = rest.rsplit_once(':')?;
    let (function, file) = rest.split_once(' ')?;
    Some((function, file, line.parse().ok()?))
}

/// Returns the function of a name as runtimes write it. Python: `py::function:file`. Node: a kind,
/// a sign for how far it was optimized (`~`: not at all, it is interpreted), function and
/// `file:line:column`. Java: `result package.Class.function(arguments)`. Other names are unchanged.
pub fn function(name: &str) -> Function {
    if let Some((function, file)) = name.strip_prefix("py::").and_then(|rest| rest.split_once(':')) {
        return Function { file: Some(clean(file)), interpreted: true, ..Function::named(function) };
    }
    let interpreted = of_node(name).is_some_and(|rest| rest.starts_with('~'));
    match script(name) {
        Some((function, file, line)) => {
            let function = if function.is_empty() { "(anonymous)" } else { function };
            let file = file.strip_prefix("file://").unwrap_or(file);
            Function { file: Some(clean(file)), line: Some(line), interpreted, ..Function::named(function) }
        }
        None => {
            let runtime = NODE_RUNTIME.iter().any(|kind| name.starts_with(kind));
            Function { runtime, ..Function::named(without_result(name)) }
        }
    }
}

/// Returns a name of Java without the type of the result.
fn without_result(name: &str) -> &str {
    let before_arguments = name.find('(').map(|at| &name[..at]);
    let split = before_arguments.and_then(|before| before.split_once(' '));
    match split {
        Some((result, function)) if function.contains('.') && !function.contains([' ', ':', '[']) => &name[result.len() + 1..],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_runtimes_are_split_into_function_file_and_line() {
        let shown = |name: &str| {
            let found = function(name);
            format!("{} {} {} {}", found.name, found.file.as_deref().unwrap_or("-"), found.line.unwrap_or(0), found.interpreted)
        };
        assert_eq!(shown("py::Class.method:/srv/app.py"), "Class.method /srv/app.py 0 true");
        assert_eq!(shown("JS:*work file:///srv/my app.js:7:15"), "work /srv/my app.js 7 false");
        assert_eq!(shown("LazyCompile:~ /srv/app.js:12:3"), "(anonymous) /srv/app.js 12 true");
        assert_eq!(shown("Builtin:ArgumentsAdaptorTrampoline"), "Builtin:ArgumentsAdaptorTrampoline - 0 false");
        assert_eq!(shown("void Main.work(int, long)"), "Main.work(int, long) - 0 false");
        for unchanged in ["Main.work(int, long)", "int32 [System] System.X::f(int)", "vtable stub", "a b(c)"] {
            assert_eq!(shown(unchanged), format!("{unchanged} - 0 false"));
        }
    }
}
