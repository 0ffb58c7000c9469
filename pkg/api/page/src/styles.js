// SPDX-License-Identifier: Apache-2.0
// The style sheets come within the bundle, so that the page cannot be there without them.

import plots from './lib/uplot/uplot.css';
import frame from './style.css';
import parts from './parts.css';

/** Gives the document its styles. */
export function addStyles() {
  document.adoptedStyleSheets = [plots, frame, parts].map((text) => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(text);
    return sheet;
  });
}
