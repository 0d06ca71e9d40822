/** The part of htmx that our modules call. */
declare const htmx: {
  ajax(
    verb: string,
    path: string,
    context: { target?: string | Element; source?: string | Element; swap?: string; values?: Record<string, unknown> },
  ): Promise<void>;
  trigger(element: Element | string, event: string): void;
  process(element: Element): void;
};
