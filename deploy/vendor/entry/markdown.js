// What shows an answer while it is written: parser, healer of half-written marks, differ.
export { default as MarkdownIt } from 'markdown-it';
export { default as morphdom } from 'morphdom';
export { default as remend } from 'remend';
