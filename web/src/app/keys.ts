// Which key means which command. Keys are bound by their position on the keyboard, so that WASD is
// a block on AZERTY as well. Commands with Ctrl are bound by the letter, because people know
// Ctrl+Z by its letter. Signs that are elsewhere on other keyboards (`/`, `?`) work by themselves.

export interface KeyBinding {
  /** Position, as in KeyboardEvent.code; of a binding with Ctrl the letter. */
  code: string;
  /** Sign that has the same effect wherever it is. */
  sign?: string;
  shift?: boolean;
  control?: boolean;
}

export interface KeyPress {
  code: string;
  key: string;
  shiftKey: boolean;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
}

export function matches(binding: KeyBinding, press: KeyPress): boolean {
  const control = press.ctrlKey || press.metaKey;
  if (press.altKey || control !== (binding.control ?? false)) return false;
  if (binding.control) {
    return (
      press.key.toLowerCase() === binding.code.toLowerCase() &&
      press.shiftKey === (binding.shift ?? false)
    );
  }
  return press.code === binding.code && press.shiftKey === (binding.shift ?? false);
}

/** The first binding that matches by position, or else by sign. */
export function findBinding<T extends { keys: readonly KeyBinding[] }>(
  commands: readonly T[],
  press: KeyPress,
): T | null {
  // A sign comes first: `?` is Shift and another key on many keyboards.
  const control = press.ctrlKey || press.metaKey || press.altKey;
  const bySign = control
    ? undefined
    : commands.find((command) => command.keys.some((key) => key.sign === press.key));
  if (bySign) return bySign;
  return commands.find((c) => c.keys.some((key) => matches(key, press))) ?? null;
}

const NAMES: Record<string, string> = {
  Period: '.',
  Comma: ',',
  BracketLeft: '[',
  BracketRight: ']',
  Slash: '/',
  Escape: 'Esc',
  ArrowLeft: '←',
  ArrowRight: '→',
};

/** How a binding is written for people. */
export function keyText(binding: KeyBinding): string {
  if (binding.sign && binding.sign !== '/') return binding.sign;
  const name = NAMES[binding.code] ?? binding.code.replace(/^Key/, '').toUpperCase();
  const control = binding.control ? 'Ctrl+' : '';
  return `${control}${binding.shift ? 'Shift+' : ''}${name}`;
}
