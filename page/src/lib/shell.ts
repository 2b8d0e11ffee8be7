// Commands that a page shows, for people to run: names from a guest must stay one word of a shell, and never an option.

/** Text as one word of a POSIX shell. */
export function word(text: string): string {
    return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** A path as one word, never an option. */
export function path(text: string): string {
    return word(text.startsWith("-") ? `./${text}` : text);
}
