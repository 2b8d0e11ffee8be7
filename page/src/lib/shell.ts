// Shell commands that a page shows. A name from a guest must stay one word, and must never become an option.

/** Text as one word of a POSIX shell. */
export function word(text: string): string {
    return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** A path as one word, never an option. */
export function path(text: string): string {
    return word(text.startsWith("-") ? `./${text}` : text);
}
