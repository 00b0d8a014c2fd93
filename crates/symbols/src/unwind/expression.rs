//! Evaluates the DWARF expressions in unwinding tables: arithmetic on registers and on memory.
//!
//! Expressions there have no branches, so evaluation ends with the bytes.

/// Maximum number of values on the evaluation's stack.
const MAX_VALUES: usize = 64;

/// Evaluates an expression. `register` and `memory` return what the expression reads. Returns
/// `None` if one of these is unknown, or if the expression is invalid or has an operation that
/// unwinding tables do not use.
pub fn evaluate(
    expression: &[u8],
    initial: Option<u64>,
    register: impl Fn(u16) -> Option<u64>,
    memory: impl Fn(u64) -> Option<u64>,
) -> Option<u64> {
    let mut bytes = expression;
    let mut values: Vec<u64> = initial.into_iter().collect();
    while let Some((&operation, rest)) = bytes.split_first() {
        bytes = rest;
        let value = match operation {
            // DW_OP_addr is relative to where the module is loaded, which tables never need.
            0x06 => memory(values.pop()?)?,
            0x08 => u64::from(take::<1>(&mut bytes)?[0]),
            0x09 => i64::from(take::<1>(&mut bytes)?[0] as i8) as u64,
            0x0a => u64::from(u16::from_le_bytes(take(&mut bytes)?)),
            0x0b => i64::from(i16::from_le_bytes(take(&mut bytes)?)) as u64,
            0x0c => u64::from(u32::from_le_bytes(take(&mut bytes)?)),
            0x0d => i64::from(i32::from_le_bytes(take(&mut bytes)?)) as u64,
            0x0e | 0x0f => u64::from_le_bytes(take(&mut bytes)?),
            0x10 => unsigned(&mut bytes)?,
            0x11 => signed(&mut bytes)? as u64,
            0x12 => *values.last()?,
            0x13 => {
                values.pop()?;
                continue;
            }
            0x14 => *values.get(values.len().checked_sub(2)?)?,
            0x16 => {
                let at = values.len().checked_sub(2)?;
                values.swap(at, at + 1);
                continue;
            }
            0x1f => values.pop()?.wrapping_neg(),
            0x20 => !values.pop()?,
            0x23 => values.pop()?.wrapping_add(unsigned(&mut bytes)?),
            0x1a | 0x1c | 0x1e | 0x21 | 0x22 | 0x24..=0x27 | 0x29..=0x2e => {
                let (right, left) = (values.pop()?, values.pop()?);
                combine(operation, left, right)
            }
            0x30..=0x4f => u64::from(operation - 0x30),
            0x70..=0x8f => {
                let offset = signed(&mut bytes)?;
                register(u16::from(operation - 0x70))?.wrapping_add_signed(offset)
            }
            0x92 => {
                let number = u16::try_from(unsigned(&mut bytes)?).ok()?;
                let offset = signed(&mut bytes)?;
                register(number)?.wrapping_add_signed(offset)
            }
            0x96 => continue,
            _ => return None,
        };
        if values.len() >= MAX_VALUES {
            return None;
        }
        values.push(value);
    }
    values.pop()
}

/// Applies an operation with two operands. Comparisons are of signed values.
fn combine(operation: u8, left: u64, right: u64) -> u64 {
    let shift = u32::try_from(right).unwrap_or(u32::MAX);
    let (signed_left, signed_right) = (left as i64, right as i64);
    match operation {
        0x1a => left & right,
        0x1c => left.wrapping_sub(right),
        0x1e => left.wrapping_mul(right),
        0x21 => left | right,
        0x22 => left.wrapping_add(right),
        0x24 => left.checked_shl(shift).unwrap_or(0),
        0x25 => left.checked_shr(shift).unwrap_or(0),
        0x26 => (signed_left >> shift.min(63)) as u64,
        0x27 => left ^ right,
        0x29 => u64::from(left == right),
        0x2a => u64::from(signed_left >= signed_right),
        0x2b => u64::from(signed_left > signed_right),
        0x2c => u64::from(signed_left <= signed_right),
        0x2d => u64::from(signed_left < signed_right),
        _ => u64::from(left != right),
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

fn unsigned(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let [byte] = take(bytes)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn signed(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0i64;
    for shift in (0..64).step_by(7) {
        let [byte] = take(bytes)?;
        value |= i64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            let sign = byte & 0x40 != 0 && shift + 7 < 64;
            return Some(if sign { value | -1 << (shift + 7) } else { value });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_real_tables_are_evaluated() {
        let register = |number: u16| match number {
            7 => Some(0x1000),
            6 => Some(0x2000),
            16 => Some(0x555b),
            _ => None,
        };
        let memory = |address: u64| (address == 0x1ff8).then_some(0x3000);
        // The linker's table of a PLT: rsp + 8 + ((rip & 15) >= 11) * 8.
        let plt = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        assert_eq!(evaluate(&plt, None, register, memory), Some(0x1010));
        // A function that aligns its stack: [rbp - 8].
        assert_eq!(evaluate(&[0x76, 0x78, 0x06], None, register, memory), Some(0x3000));
        assert_eq!(evaluate(&[0x77, 0x78, 0x06], None, register, memory), None);
        // The initial value of an expression for a register is the CFA.
        assert_eq!(evaluate(&[0x23, 0x80, 1], Some(0x100), register, memory), Some(0x180));
        for invalid in [&[][..], &[0x06], &[0x80], &[0x10, 0x80], &[0x22], &[0xff], &[0x03, 0, 0, 0, 0, 0, 0, 0, 0], &[0x31; 100]] {
            assert_eq!(evaluate(invalid, None, register, memory), None, "{invalid:?}");
        }
    }
}
