/**
 * Copies a text, and says whether the browser let it. A page that came over plain HTTP from another machine may not:
 * the field that shows the text is then selected, so that the reader can.
 */
export async function copyText(text: string, field: HTMLInputElement | undefined): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    field?.select()
    return false
  }
}
